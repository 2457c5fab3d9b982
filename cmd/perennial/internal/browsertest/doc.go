// Package browsertest drives the web UI in Chromium for tests with the build tag check. It
// starts a browser for each test, performs steps that wait for the page, and finds faults that
// no page may have.
package browsertest
