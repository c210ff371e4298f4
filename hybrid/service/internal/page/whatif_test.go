package page

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/whatif"
)

// asked has users ask for tokens of shop, and waits until that is recorded.
func (s *service) asked(n int, users ...string) (denied map[string]int) {
	s.t.Helper()
	denied = map[string]int{}
	for range n {
		for _, user := range users {
			r, err := s.limiter.Take(s.t.Context(), "shop", rules.Of("user", user))
			s.must(err)
			if !r.Allowed {
				denied[user]++
			}
		}
	}
	want := int64(n * len(users))
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); <-tick.C {
		a, err := s.record.Ask(s.t.Context(), "shop", "user", hybrid.Unlimited)
		s.must(err)
		if a.Requests == want {
			return denied
		}
	}
	s.t.Fatalf("%d requests are not recorded after 10 s", want)
	return nil
}

// TestWhatIf: the page of a rule, and the editor, tell what another limit would have denied of what
// was recorded, and nothing is saved.
func TestWhatIf(t *testing.T) {
	s := newService(t)
	vic, ed := s.as("vic"), s.as("ed")
	vic.get("/domains/shop/rule?path=user&number=60&unit=minute").
		want(t, http.StatusOK, "No request of this rule was recorded in the last 0 s")
	denied := s.asked(70, "ann", "<b>bob") // about 10 each, by how long that takes
	all := denied["ann"] + denied["<b>bob"]
	at := "/domains/shop/rule?path=user"
	if a := vic.get(at); !strings.Contains(a.text, `value="60"`) || strings.Contains(a.text, "Denied most") {
		t.Errorf("the form does not begin with the limit: %s", a.text)
	}
	a := vic.get(at + "&number=30&unit=minute&burst=&kind=&offset=")
	a.want(t, http.StatusOK,
		fmt.Sprintf("80 of 140 requests would have been denied by 30/minute ; %d were", all),
		"30/minute 80 57.1 % 2 of 2", fmt.Sprintf("What was done %d %.1f %% 2 of 2", all, float64(all)/1.4),
		fmt.Sprintf(`user="<b>bob" 70 40 %d`, denied["<b>bob"]),
		"Requests of 1 service. The limit tried is an ideal one")
	if strings.Contains(a.text, "Edit the rule with this limit") {
		t.Error("a viewer is led to the editor")
	}
	vic.get(at+"&number=90&unit=minute").want(t, http.StatusOK, "0 of 140 requests")
	vic.get(at+"&number=5&unit=hour&burst=70").
		want(t, http.StatusOK, "0 of 140 requests would have been denied by 5/hour burst 70")
	vic.get(at+"&number=65&unit=day&kind=sliding").want(t, http.StatusOK, "10 of 140 requests")
	vic.get(at+"&number=65&unit=day&offset=-3h").want(t, http.StatusOK, "65/day by the calendar at UTC-3 h")
	vic.get(at+"&number=0&unit=day").want(t, http.StatusOK, "140 of 140 requests")
	ed.get(at+"&number=30&unit=minute").want(t, http.StatusOK, "Edit the rule with this limit")

	vic.get("/domains/shop/rule?path=path%3D/search&number=1&unit=minute").
		want(t, http.StatusOK, "The rule is a shadow")
	if strings.Contains(a.text, "The rule is a shadow") {
		t.Errorf("a rule that denies is taken for a shadow: %s", a.says())
	}

	for query, says := range map[string]string{
		"number=&unit=minute":                    "The number of requests is",
		"number=-1&unit=minute":                  "not digits",
		"number=1%7D%5D&unit=minute":             "not digits",
		"number=5&unit=parsec":                   "makes no sense",
		"number=5":                               "The unit is missing",
		"number=5&unit=minute&kind=slots":        "makes no sense",
		"number=5&unit=day&burst=7":              "burst",
		"number=5&unit=minute&offset=2h":         "offset",
		"number=5&unit=day&offset=99h":           "-14h to 14h",
		"number=5&unit=day&offset=%E2%80%AE":     "The offset is",
		"number=9223372036854775807&unit=minute": "whole number",
	} {
		if a := vic.get(at + "&" + query); !strings.Contains(a.says(), says) || a.StatusCode != http.StatusOK ||
			strings.Contains(a.text, "would have been denied") {
			t.Errorf("%s: %d, %s", query, a.StatusCode, a.says())
		}
	}

	post := func(text string) answer {
		return ed.post("/domains/shop/edit", "base", "1", "text", text, "reason", "", "do", "whatif")
	}
	post(strings.Replace(shop, "60}", "30}", 1)).want(t, http.StatusOK, "What if: user",
		"80 of 140 requests", "denied by 30/minute", "Your edit is of version 1")
	post(shop).want(t, http.StatusOK, "the text changes the limit of no rule that is in force")
	post(strings.Replace(shop, "60}", "x}", 1)).want(t, http.StatusOK, "1 mistake")
	more := strings.NewReplacer("60}", "61}", "5, burst", "6, burst", "1000}", "1001}", "50, name", "51, name").
		Replace(shop)
	post(more).want(t, http.StatusOK, "What if: address", "limits of 2 more rules are not tried")
	s.as("vic").post("/domains/shop/edit", "base", "1", "text", shop, "do", "whatif").
		want(t, http.StatusForbidden)
	if v := s.newest("shop").Version; v != 1 {
		t.Errorf("version %d was saved", v)
	}
}

// TestWhatIfOf: the page says whose requests were played again, and which were not.
func TestWhatIfOf(t *testing.T) {
	var a whatif.Answer
	var failure error
	s := newService(t, func(c *Config) {
		c.WhatIf = func(context.Context, string, string, hybrid.Limit) (whatif.Answer, error) {
			return a, failure
		}
	})
	vic := s.as("vic")
	const at = "/domains/shop/rule?path=user&number=30&unit=minute"
	a = whatif.Answer{
		From: time.Now().Add(-time.Hour), To: time.Now(), Requests: 12_345, Would: 1, Keys: 5, KeysWould: 1,
		OneOf: 4, Services: 3,
		Worst: []whatif.KeyFate{{Key: strings.Repeat("k", 5000), Requests: 9, Would: 1}},
	}
	vic.get(at).want(t, http.StatusOK, "In the last 60 min, 1 of 12,345", "Requests of 3 services.",
		"One key of 4 is recorded")
	name := strings.Repeat("k", mostQuoted) + "…"
	s.as("ed").get(at).want(t, http.StatusOK, name)
	if strings.Contains(vic.get(at).text, name) {
		t.Error("a viewer sees the name of a key that nothing was denied of")
	}
	a.Missing = 2
	vic.get(at).want(t, http.StatusOK, "2 of 5 services have not told what they decided")
	for err, says := range map[error]string{
		whatif.ErrBusy: "Too many users try a limit", context.Canceled: "Nothing was played again",
	} {
		failure = err
		vic.get(at).want(t, http.StatusOK, says)
	}
	none := newService(t, func(c *Config) { c.WhatIf = nil })
	for _, path := range []string{at, "/domains/shop/edit"} {
		if a := none.as("ed").get(path); strings.Contains(a.says(), "What if") {
			t.Errorf("%s: %s", path, a.says())
		}
	}
	none.as("ed").post("/domains/shop/edit", "base", "1", "text", shop, "do", "whatif").
		want(t, http.StatusOK)
}
