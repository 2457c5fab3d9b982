// Package browsertest opens the pages in Chromium for the tests with the build tag browser:
// a browser of the test's own, steps that wait for what a page shows, and what a page must
// not do.
package browsertest
