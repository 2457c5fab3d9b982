package sandbox_test

import (
	"net/http"
	"strings"
	"testing"
)

const line = `{"offer_code":"off_us","quantity":1}`

// Invalid orders, each with the field that the refusal names.
var brokenOrders = map[string]struct{ body, field string }{
	"empty":                {``, "body"},
	"array":                {`[]`, "body"},
	"cut":                  {`{"duration_days":30,"items":[` + line, "body"},
	"trailing":             {`{"duration_days":30,"items":[` + line + `]} {}`, "body"},
	"no utf-8":             {"{\"offer_code\":\"\xff\xfe\"}", "body"},
	"control in string":    {"{\"offer_code\":\"a\nb\"}", "body"},
	"bad escape":           {`{"offer_code":"\x"}`, "body"},
	"no colon":             {`{"offer_code"}`, "body"},
	"duration missing":     {`{"items":[` + line + `]}`, "duration_days"},
	"duration null":        {`{"items":[` + line + `],"duration_days":null}`, "duration_days"},
	"duration text":        {`{"items":[` + line + `],"duration_days":"30"}`, "duration_days"},
	"duration fraction":    {`{"items":[` + line + `],"duration_days":30.0}`, "duration_days"},
	"duration exponent":    {`{"items":[` + line + `],"duration_days":3e1}`, "duration_days"},
	"duration zeros":       {`{"items":[` + line + `],"duration_days":030}`, "body"},
	"duration huge":        {`{"items":[` + line + `],"duration_days":99999999999999999999}`, "duration_days"},
	"duration negative":    {`{"items":[` + line + `],"duration_days":-30}`, "duration_days"},
	"duration zero":        {`{"items":[` + line + `],"duration_days":0}`, "duration_days"},
	"duration twice":       {`{"duration_days":30,"items":[` + line + `],"duration_days":60}`, "duration_days"},
	"duration in capitals": {`{"Duration_Days":30,"items":[` + line + `]}`, "Duration_Days"},
	"items missing":        {`{"duration_days":30}`, "items"},
	"items empty":          {`{"duration_days":30,"items":[]}`, "items"},
	"items object":         {`{"duration_days":30,"items":{}}`, "items"},
	"items of numbers":     {`{"duration_days":30,"items":[1]}`, "items.0"},
	"51 lines":             {`{"duration_days":30,"items":[` + strings.TrimSuffix(strings.Repeat(line+",", 51), ",") + `]}`, "items"},
	"offer missing":        {`{"duration_days":30,"items":[` + line + `,{"quantity":1}]}`, "items.1.offer_code"},
	"offer empty":          {`{"duration_days":30,"items":[{"offer_code":"","quantity":1}]}`, "items.0.offer_code"},
	"offer number":         {`{"duration_days":30,"items":[{"offer_code":7,"quantity":1}]}`, "items.0.offer_code"},
	"quantity missing":     {`{"duration_days":30,"items":[{"offer_code":"off_us"}]}`, "items.0.quantity"},
	"quantity text":        {`{"duration_days":30,"items":[{"offer_code":"off_us","quantity":"1"}]}`, "items.0.quantity"},
	"quantity negative":    {`{"duration_days":30,"items":[{"offer_code":"off_us","quantity":-1}]}`, "items.0.quantity"},
	"quantity over 2000":   {`{"duration_days":30,"items":[{"offer_code":"off_us","quantity":2001}]}`, "items.0.quantity"},
	"quantity twice":       {`{"duration_days":30,"items":[{"offer_code":"off_us","quantity":1,"quantity":1}]}`, "items.0.quantity"},
	"over max_quantity":    {`{"duration_days":30,"items":[{"offer_code":"off_us","quantity":501}]}`, "items.0.quantity"},
	"sum over 2000":        {`{"duration_days":30,"items":[{"offer_code":"off_us","quantity":1500},{"offer_code":"off_de","quantity":501}]}`, "items"},
	"unknown item field":   {`{"duration_days":30,"items":[{"offer_code":"off_us","quantity":1,"colour":1}]}`, "items.0.colour"},
	"unknown field":        {`{"duration_days":30,"items":[` + line + `],"max_total_cents":[[[[]]]]}`, "max_total_cents"},
	"cidrs text":           {`{"duration_days":30,"items":[{"offer_code":"off_us","quantity":1,"cidrs":"198.51.100.0/24"}]}`, "items.0.cidrs"},
	"cidrs of numbers":     {`{"duration_days":30,"items":[{"offer_code":"off_us","quantity":1,"cidrs":["198.51.100.0/24",7]}]}`, "items.0.cidrs.1"},
	"foreign cidr":         {`{"duration_days":30,"items":[{"offer_code":"off_us","quantity":1,"cidrs":["192.0.2.0/24"]}]}`, "items.0.cidrs"},
	"cidr on two lines": {`{"duration_days":30,"items":[{"offer_code":"off_us","quantity":1,"cidrs":["198.51.100.0/24"]},` +
		`{"offer_code":"off_us","quantity":1,"cidrs":["198.51.100.0/24"]}]}`, "items.1.cidrs"},
	"chosen, then random": {`{"duration_days":30,"items":[{"offer_code":"off_us","quantity":1,"cidrs":["198.51.100.0/24"]},` + line + `]}`, "items.1.cidrs"},
	"random, then chosen": {`{"duration_days":30,"items":[` + line + `,{"offer_code":"off_us","quantity":1,"cidrs":["198.51.100.0/24"]}]}`, "items.1.cidrs"},
	"legacy and items":    {`{"duration_days":30,"offer_code":"off_us","quantity":1,"items":[` + line + `]}`, "items"},
	"quantity and items":  {`{"duration_days":30,"quantity":1,"items":[` + line + `]}`, "items"},
	"legacy and no items": {`{"duration_days":30,"offer_code":"off_us","quantity":1,"items":[]}`, "items"},
	"legacy, no offer":    {`{"duration_days":30,"quantity":1}`, "offer_code"},
	"legacy, no quantity": {`{"duration_days":30,"offer_code":"off_us"}`, "quantity"},
	"legacy, over 2000":   {`{"duration_days":30,"offer_code":"off_us","quantity":2001}`, "quantity"},
	"legacy, over most":   {`{"duration_days":30,"offer_code":"off_us","quantity":501}`, "quantity"},
	"unsupported days":    {`{"duration_days":120,"items":[` + line + `]}`, "duration_days"},
	"no multiple of 30":   {`{"duration_days":45,"items":[` + line + `]}`, "duration_days"},
}

// Invalid renewals, each with the field that the refusal names.
var brokenRenewals = map[string]struct{ body, field string }{
	"empty":        {``, "body"},
	"ids missing":  {`{"duration_days":30}`, "proxy_ids"},
	"ids empty":    {`{"duration_days":30,"proxy_ids":[]}`, "proxy_ids"},
	"ids null":     {`{"duration_days":30,"proxy_ids":null}`, "proxy_ids"},
	"ids text":     {`{"duration_days":30,"proxy_ids":"px_1"}`, "proxy_ids"},
	"id number":    {`{"duration_days":30,"proxy_ids":["px_1",2]}`, "proxy_ids.1"},
	"id null":      {`{"duration_days":30,"proxy_ids":[null]}`, "proxy_ids.0"},
	"id twice":     {`{"duration_days":30,"proxy_ids":["px_1","px_null","px_1"]}`, "proxy_ids.2"},
	"1096 days":    {`{"duration_days":1110,"proxy_ids":["px_1"]}`, "duration_days"},
	"1095 days":    {`{"duration_days":1095,"proxy_ids":["px_1"]}`, "duration_days"},
	"no days":      {`{"proxy_ids":["px_1"]}`, "duration_days"},
	"unknown":      {`{"duration_days":30,"proxy_ids":["px_1"],"dry_run":true}`, "dry_run"},
	"ids twice":    {`{"duration_days":30,"proxy_ids":["px_1"],"proxy_ids":["px_null"]}`, "proxy_ids"},
	"too many ids": {`{"duration_days":30,"proxy_ids":["px_1"` + strings.Repeat(`,"px_1"`, 5000) + `]}`, "proxy_ids"},
}

// Each refusal contains the path of the invalid field, and nothing is charged.
func TestBodiesAreRefusedByTheNameOfTheField(t *testing.T) {
	h := start(t, nil)
	for name, tc := range brokenOrders {
		h.wantsField("order: "+name, h.send(order(tc.body)), tc.field)
	}
	for name, tc := range brokenRenewals {
		h.wantsField("renewal: "+name, h.send(renew(tc.body)), tc.field)
	}
	if h.balance(h.client(alphaSandbox)) != 500000 {
		t.Error("a refusal charged")
	}
}

// A client may send null for an absent field, escapes and white space.
func TestBodiesThatAreValid(t *testing.T) {
	h := start(t, nil)
	for name, body := range map[string]string{
		"white space": " {\t\"duration_days\" : 30 ,\r\n \"items\" : [ { \"offer_code\" : \"off_us\" , \"quantity\" : 1 } ] } ",
		"escapes":     `{"duration_days":30,"items":[{"offer_code":"off_us","quantity":1}]}`,
		"nulls":       `{"duration_days":30,"offer_code":null,"quantity":null,"items":[{"offer_code":"off_us","quantity":1,"cidrs":null}]}`,
		"no cidrs":    `{"duration_days":30,"items":[{"offer_code":"off_us","quantity":1,"cidrs":[]}]}`,
		"chosen":      `{"duration_days":30,"items":[{"offer_code":"off_us","quantity":1,"cidrs":["198.51.100.0/24","203.0.113.0/24"]}]}`,
		"same offer":  `{"duration_days":30,"items":[{"offer_code":"off_us","quantity":1},{"offer_code":"off_us","quantity":2}]}`,
		"legacy":      `{"duration_days":30,"offer_code":"off_us","quantity":1,"items":null}`,
	} {
		h.wants(name, h.send(order(body)), http.StatusCreated, "ok")
	}
}

func TestPostsMustBeJSON(t *testing.T) {
	h := start(t, nil)
	body := `{"duration_days":30,"proxy_ids":["px_1"]}`
	for value, ok := range map[string]bool{"application/json": true, "application/json; charset=utf-8": true, "Application/JSON;charset=UTF-8": true,
		"": true, "text/plain": false, "application/x-www-form-urlencoded": false, "application/json; charset=latin1": false, ";": false} {
		q := renew(body)
		q.header = map[string]string{"Content-Type": value}
		if got := h.send(q); ok {
			h.wants("Content-Type "+value, got, http.StatusOK, "ok")
		} else {
			h.wantsField("Content-Type "+value, got, "Content-Type")
		}
	}
	q := renew(body)
	q.header["Content-Encoding"] = "gzip"
	h.wantsField("gzip", h.send(q), "Content-Encoding")
}

func TestIdempotencyKeys(t *testing.T) {
	h := start(t, nil)
	body := `{"duration_days":30,"proxy_ids":["px_1"]}`
	for _, q := range []raw{renew(body), order(`{"duration_days":30,"offer_code":"off_us","quantity":1}`)} {
		q.key = ""
		h.wants("no key", h.send(q), http.StatusBadRequest, "idempotency_key_required")
	}
	for name, key := range map[string]string{"long": strings.Repeat("k", 256), "no ASCII": "k\xfc", "a tab": "a\tb"} {
		q := renew(body)
		q.key = key
		h.wantsField(name, h.send(q), "Idempotency-Key")
	}
	q := renew(body)
	q.header["idempotency-key"] = "another"
	h.wantsField("two keys", h.send(q), "Idempotency-Key")
	q = renew(body)
	q.key = strings.Repeat("k", 255)
	h.wants("255 bytes", h.send(q), http.StatusOK, "ok")
	// After a refusal the key is unused, so the corrected body succeeds with it.
	q = renew(`{"duration_days":31,"proxy_ids":["px_1"]}`)
	h.wantsField("wrong", h.send(q), "duration_days")
	q.body = body
	h.wants("corrected", h.send(q), http.StatusOK, "ok")
	// Bodies are compared by their bytes, so the same JSON with a space is another body.
	q.body += " "
	h.wants("other bytes", h.send(q), http.StatusConflict, "idempotency_key_conflict")
}
