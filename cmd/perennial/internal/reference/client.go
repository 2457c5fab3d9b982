// Package reference is the client with which `perennial bench` compares the runner.
//
// The package is FROZEN. Bench figures of two versions can be compared only while this client
// does not change. This holds above all for the ratio of the runner's rate to the client's. The
// client shares no code with perennial/upstream, so a faster product client does not worsen the
// ratio. It does what a careful program does with net/http and encoding/json, and no more. It
// signs a request, sends it once, reads the reply and checks the result. A test compares the
// file with its hash. Record a change of this file in the change log, with figures from before
// and after it.
package reference

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Client sends requests with one API key. Its methods are safe for concurrent use.
type Client struct {
	base, host    string
	appID, secret string
	http          *http.Client
}

// New returns a client for the API at a base address, such as http://127.0.0.1:8080.
// connections is the number of idle connections that stay open.
func New(base, appID, secret string, connections int) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{MaxIdleConns: connections, MaxIdleConnsPerHost: connections, IdleConnTimeout: time.Minute, DisableCompression: true}
	return &Client{
		base: strings.TrimSuffix(base, "/"), host: strings.ToLower(u.Hostname()), appID: appID, secret: secret,
		http: &http.Client{Transport: transport, Timeout: time.Minute},
	}, nil
}

// Close closes the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Renew renews one proxy with a POST. The reply must confirm that the proxy was renewed and
// charged.
func (c *Client) Renew(ctx context.Context, key, proxy string, days int) error {
	body, err := json.Marshal(renewal{ProxyIDs: []string{proxy}, DurationDays: days})
	if err != nil {
		return err
	}
	var got renewed
	if err := c.do(ctx, http.MethodPost, "/api/v1/proxies/renew", key, body, http.StatusOK, &got); err != nil {
		return err
	}
	if got.Status != "completed" || !slices.Equal(got.Succeeded, []string{proxy}) || len(got.Failed)+len(got.Unresolved) > 0 || got.ChargedCents <= 0 {
		return fmt.Errorf("%s was not renewed: %+v", proxy, got)
	}
	return nil
}

// Order buys one proxy with a POST, then reads the order with a GET. The order must show that
// the proxy was delivered.
func (c *Client) Order(ctx context.Context, key, offer string, days int) error {
	body, err := json.Marshal(order{DurationDays: days, Items: []item{{OfferCode: offer, Quantity: 1}}})
	if err != nil {
		return err
	}
	var created ordered
	if err := c.do(ctx, http.MethodPost, "/api/v1/orders", key, body, http.StatusCreated, &created); err != nil {
		return err
	}
	if created.OrderNo == "" {
		return errors.New("the reply has no order_no")
	}
	var got ordered
	if err := c.do(ctx, http.MethodGet, "/api/v1/orders/"+url.PathEscape(created.OrderNo), "", nil, http.StatusOK, &got); err != nil {
		return err
	}
	if got.OrderNo != created.OrderNo || !got.Delivery.Complete || !got.Delivery.Available || len(got.Proxies) != 1 || got.Proxies[0].ProxyID == "" {
		return fmt.Errorf("order %s is not delivered", created.OrderNo)
	}
	return nil
}

type renewal struct {
	ProxyIDs     []string `json:"proxy_ids"`
	DurationDays int      `json:"duration_days"`
}

type renewed struct {
	Status       string   `json:"status"`
	ChargedCents int64    `json:"charged_cents"`
	Succeeded    []string `json:"successful_proxy_ids"`
	Failed       []string `json:"failed_proxy_ids"`
	Unresolved   []string `json:"unresolved_proxy_ids"`
}

type order struct {
	DurationDays int    `json:"duration_days"`
	Items        []item `json:"items"`
}

type item struct {
	OfferCode string `json:"offer_code"`
	Quantity  int    `json:"quantity"`
}

type ordered struct {
	OrderNo  string `json:"order_no"`
	Delivery struct {
		Complete  bool `json:"complete"`
		Available bool `json:"available"`
	} `json:"delivery"`
	Proxies []struct {
		ProxyID string `json:"proxy_id"`
	} `json:"proxies"`
}

// do sends one signed request, without retries, and decodes the data of the reply.
func (c *Client) do(ctx context.Context, method, path, key string, body []byte, status int, data any) error {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	c.sign(req, method, path, body)
	req.Header.Set("User-Agent", "perennial-reference/1")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	reply := struct {
		Success bool   `json:"success"`
		Code    string `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data"`
	}{Data: data}
	if err := json.Unmarshal(text, &reply); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if resp.StatusCode != status || !reply.Success || reply.Code != "ok" {
		return fmt.Errorf("%s %s: status %d, %s: %s", method, path, resp.StatusCode, reply.Code, reply.Message)
	}
	return nil
}

// sign adds the headers of the API's authentication. The query is signed as empty, because no
// path of this client has one.
func (c *Client) sign(req *http.Request, method, path string, body []byte) {
	stamp, nonce, sum := time.Now().UTC().Format(time.RFC3339), rand.Text(), sha256.Sum256(body)
	mac := hmac.New(sha256.New, []byte(c.secret))
	mac.Write([]byte(strings.Join([]string{method, c.host, path, "", stamp, nonce, hex.EncodeToString(sum[:])}, "\n")))
	req.Header.Set("X-API-AppId", c.appID)
	req.Header.Set("X-API-Timestamp", stamp)
	req.Header.Set("X-API-Nonce", nonce)
	req.Header.Set("X-API-Signature", hex.EncodeToString(mac.Sum(nil)))
}
