// The signed client that every peer's worker sends with, and that alone is the "bare
// client" all rates are compared with.
//
// It is a copy of what the frozen client of `perennial bench` does for a renewal
// (cmd/perennial/internal/reference in the main module): that package is internal, and
// another module cannot import it. The law of both is the signature and the renewal of the
// provider's customer API, which the sandbox checks on every request (docs/sandbox.md).

package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// apiClient sends renewals with one key of the sandbox. It may be used concurrently.
type apiClient struct {
	base, host string
	http       *http.Client
}

// newClient is a client of the sandbox at a base address, such as http://127.0.0.1:8080.
// connections is how many of them stay open between requests.
func newClient(base string, connections int) (*apiClient, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{MaxIdleConns: connections, MaxIdleConnsPerHost: connections, IdleConnTimeout: time.Minute, DisableCompression: true}
	return &apiClient{base: base, host: strings.ToLower(u.Hostname()), http: &http.Client{Transport: transport, Timeout: time.Minute}}, nil
}

// result is what a job keeps of a reply: it is recorded in the store that can record one.
type result struct {
	Status       string   `json:"status"`
	ChargedCents int64    `json:"charged_cents"`
	Succeeded    []string `json:"successful_proxy_ids"`
	Failed       []string `json:"failed_proxy_ids"`
	Unresolved   []string `json:"unresolved_proxy_ids"`
	TraceID      string   `json:"trace_id"`
}

// renew renews one proxy for 30 days: one signed POST, whose reply has to say that the
// proxy is renewed and charged.
func (c *apiClient) renew(ctx context.Context, key, proxy string) (result, error) {
	const path = "/api/v1/proxies/renew"
	body, err := json.Marshal(map[string]any{"proxy_ids": []string{proxy}, "duration_days": 30})
	if err != nil {
		return result{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(body))
	if err != nil {
		return result{}, err
	}
	req.GetBody = nil // net/http must not send a POST again by itself
	c.sign(req, path, body)
	req.Header.Set("User-Agent", "perennial-benchmarks/1")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	resp, err := c.http.Do(req)
	if err != nil {
		return result{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return result{}, err
	}
	return readRenewal(resp.StatusCode, text, proxy)
}

func readRenewal(status int, text []byte, proxy string) (result, error) {
	var reply struct {
		Success bool   `json:"success"`
		Code    string `json:"code"`
		Message string `json:"message"`
		TraceID string `json:"trace_id"`
		Data    result `json:"data"`
	}
	if err := json.Unmarshal(text, &reply); err != nil {
		return result{}, fmt.Errorf("renew %s: %w", proxy, err)
	}
	if status != http.StatusOK || !reply.Success || reply.Code != "ok" {
		return result{}, fmt.Errorf("renew %s: status %d, %s: %s", proxy, status, reply.Code, reply.Message)
	}
	got := reply.Data
	if got.Status != "completed" || !slices.Equal(got.Succeeded, []string{proxy}) || len(got.Failed)+len(got.Unresolved) > 0 || got.ChargedCents <= 0 {
		return result{}, fmt.Errorf("%s was not renewed: %+v", proxy, got)
	}
	got.TraceID = reply.TraceID
	return got, nil
}

// sign adds the headers of the API's authentication. The path has no query.
func (c *apiClient) sign(req *http.Request, path string, body []byte) {
	stamp, nonce, sum := time.Now().UTC().Format(time.RFC3339), rand.Text(), sha256.Sum256(body)
	mac := hmac.New(sha256.New, []byte(sandboxSecret))
	mac.Write([]byte(strings.Join([]string{req.Method, c.host, path, "", stamp, nonce, hex.EncodeToString(sum[:])}, "\n")))
	req.Header.Set("X-API-AppId", sandboxAppID)
	req.Header.Set("X-API-Timestamp", stamp)
	req.Header.Set("X-API-Nonce", nonce)
	req.Header.Set("X-API-Signature", hex.EncodeToString(mac.Sum(nil)))
}
