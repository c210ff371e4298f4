package main

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/remote/redistest"
)

// banned are two replicas of a shop, whose rules and bans are in Redis.
func banned(t *testing.T) (first, second *whole, redis *redistest.Server, args []string) {
	t.Helper()
	redis = redistest.Start(t, "appendonly yes", "appendfsync always", "dir "+t.TempDir())
	args = []string{"-data", t.TempDir(), "-redis", "redis://" + redis.Addr, "-rules", "redis:test",
		"-timeout", "20s"} // longer than a busy machine stands still
	first = shop(t, append(args, "-seed", "true")...)
	second = startWhole(t, args...)
	second.visitor = first.visitor.At(second.http)
	return first, second, redis, args
}

// denies reports whether a peek for the user ann is denied.
func (w *whole) denies() bool {
	body, _ := ann(1)
	return !w.allowed("v1/peek", body)
}

// TestBansOfReplicas: a ban that the page of one replica sets is in force on another one within a
// second, over gRPC as well, survives a restart of all and of Redis, and is lifted by the API.
func TestBansOfReplicas(t *testing.T) {
	first, second, redis, args := banned(t)
	if second.denies() {
		t.Fatal("ann is denied before")
	}
	began := time.Now()
	first.form(http.StatusSeeOther, "domains/shop/bans", "do", "ban", "descriptor", "user=ann",
		"minutes", "60", "reason", "<script>alert(1)</script>")
	second.soon("the ban is in force on the other replica", second.denies)
	t.Logf("in force on the other replica after %v", time.Since(began))
	if _, one := ann(1); ask(t, second.dial(t), one) {
		t.Error("gRPC lets ann through")
	}
	if _, body := fetch(t, second.metrics); !strings.Contains(body,
		`ration_domain_banned_total{domain="shop"} 1`) {
		t.Errorf("the metrics do not count it: %s", body)
	}
	a := second.page(http.StatusOK, "domains/shop/bans", "&lt;script&gt;alert(1)&lt;/script&gt;")
	if strings.Contains(a.Text, "<script>alert") {
		t.Error("the reason is markup")
	}
	first.end(t)
	second.end(t)
	redis.Kill()
	redis.Restart()
	client := redis.Client()
	second.soon("Redis has loaded its file", func() bool { return client.Ping(t.Context()).Err() == nil })
	again := startWhole(t, args...)
	again.visitor = first.visitor.At(again.http)
	if !again.denies() {
		t.Error("a restart lifts the ban")
	}
	again.api(http.StatusOK, "DELETE", "v1/domains/shop/bans?descriptor=user%3Dann&reason=sorry", "")
	again.soon("the ban is lifted", func() bool { return !again.denies() })
	again.page(http.StatusOK, "domains/shop/audit?q=banned+admin+127.0.0.1", "user=ann until",
		"&lt;script&gt;")
	again.page(http.StatusOK, "domains/shop/audit?q=lifted", "ban lifted by the API", "user=ann: sorry")
	again.end(t)
}

// TestBanForms: no ban is set without the right, by another site, or by a form that makes no sense;
// and bans of a book are no domain.
func TestBanForms(t *testing.T) {
	w := shop(t, "-data", t.TempDir())
	const password, at = "correct horse battery", "domains/shop/bans"
	good := []string{"do", "ban", "descriptor", "user=ann", "minutes", "60", "reason", "abuse"}
	with := func(pairs ...string) (form []string) {
		form = append(form, good...)
		for i := 0; i < len(pairs); i += 2 {
			for j := 0; j < len(form); j += 2 {
				if form[j] == pairs[i] {
					form[j+1] = pairs[i+1]
				}
			}
		}
		return form
	}
	for status, forms := range map[int][][]string{
		http.StatusBadRequest: {
			with("do", "x"), with("minutes", "-1"), with("minutes", "61"), with("minutes", "1e9"),
			{"do", "lift", "descriptor", "=", "reason", "r"},
		},
		http.StatusUnprocessableEntity: {
			with("reason", ""), with("reason", "a\u202eb"), with("reason", strings.Repeat("x", 257)),
			with("descriptor", ""), with("descriptor", "user"), with("descriptor", "<b>"),
			with("descriptor", "address=0.0.0.0/0"), with("descriptor", "address=10.1.0.0/8"),
		},
		http.StatusNotFound: {{"do", "lift", "descriptor", "user=ann", "reason", "r"}},
	} {
		for _, form := range forms {
			w.form(status, at, form...)
		}
	}
	form := url.Values{}
	for i := 0; i < len(good); i += 2 {
		form.Set(good[i], good[i+1])
	}
	for _, header := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://example.org"},
	} {
		a, err := w.visitor.Do(t.Context(), "POST", at, form.Encode(), append(header,
			"Content-Type", "application/x-www-form-urlencoded")...)
		if err != nil || a.Status != http.StatusForbidden {
			t.Errorf("%s: %d %v", header, a.Status, err)
		}
	}
	w.form(http.StatusOK, "users/admin", "do", "right", "domain", "bans of shop", "role", "admin")
	w.page(http.StatusNotFound, "domains/bans%20of%20shop")
	w.form(http.StatusUnprocessableEntity, "new", "name", "bans of shop", "reason", "r")
	if w.denies() {
		t.Error("a refused form bans")
	}
	w.form(http.StatusSeeOther, "users", "name", "vic", "password", password)
	w.form(http.StatusOK, "users/vic", "do", "right", "domain", "shop", "role", "viewer")
	w.form(http.StatusSeeOther, at, good...)
	w.login("vic", password)
	if a := w.page(http.StatusOK, at, "abuse"); strings.Contains(a.Text, "<select") ||
		strings.Contains(a.Text, "?lift=") {
		t.Error("a viewer has forms")
	}
	w.form(http.StatusForbidden, at, good...)
	w.form(http.StatusForbidden, at, "do", "lift", "descriptor", "user=ann", "reason", "r")
	w.soon("the ban is in force", w.denies)
	w.end(t)
}
