package page

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/seed13b07268/ration/hybrid/rules"
)

// TestEdit: an editor sees the rules, makes a mistake, then saves, and the change is in force.
func TestEdit(t *testing.T) {
	s := newService(t)
	ed := s.as("ed")
	ed.get("/").want(t, http.StatusOK, "shop 4 rules, editor",
		"Rules near their limit are found among those with one bucket")
	ed.get("/domains/shop").want(t, http.StatusOK, "Version 1 by olga", "user 60/minute",
		"address 5/second burst 20, address by ip/64", "search 50/second, shadow: it only counts",
		"user=crawler 1000/day by the calendar, trial 500/day by the calendar for 10 %")
	ed.get("/domains/shop/edit").want(t, http.StatusOK, "- key: user # each user")

	wrong := strings.Replace(shop, "unit: minute", "unit: mintue", 1)
	typed := []string{"base", "1", "reason", "busier", "text", strings.ReplaceAll(wrong, "\n", "\r\n")}
	ed.post("/domains/shop/check", typed...).want(t, http.StatusOK,
		"1 mistake Line 4, column 24 , descriptors[0].rate_limit.unit: unknown unit",
		"rate_limit: {unit: mintue, requests_per_unit: 60}")
	ed.post("/domains/shop/edit", typed...).want(t, http.StatusUnprocessableEntity,
		"Nothing was saved", "unit: mintue", "column 24")

	right := strings.Replace(shop, "60}", "90}", 1)
	typed[5] = strings.ReplaceAll(right, "\n", "\r\n")
	ed.post("/domains/shop/check", typed...).want(t, http.StatusOK, "is valid",
		"user: 60/minute → 90/minute")
	ed.post("/domains/shop/edit", append(typed, "do", "check")...).want(t, http.StatusOK,
		"user: 60/minute → 90/minute", "requests_per_unit: 90")
	if s.newest("shop").Version != 1 {
		t.Error("it was saved")
	}
	ed.post("/domains/shop/edit", typed...).leads(t, "/domains/shop?saved=2")
	if r := s.newest("shop"); string(r.Text) != right || r.Author != "ed" || r.Reason != "busier" {
		t.Errorf("saved was %+v", r)
	}
	ed.get("/domains/shop?saved=2").want(t, http.StatusOK, "Version 2 is saved")
	s.inForce("shop", 2)
	s.page.asOf = s.page.asOf.Add(-statsLife)
	ed.get("/domains/shop").want(t, http.StatusOK, "user 90/minute")
	s.as("ann").get("/audit").want(t, http.StatusOK,
		"ed 127.0.0.1 rules changed in shop version 2: busier")
}

// TestManyRules: a domain with all the rules that one may have is shown in part.
func TestManyRules(t *testing.T) {
	s := newService(t)
	ed := s.as("ed")
	var text strings.Builder
	text.WriteString("domain: shop\ndescriptors:\n")
	for i := range rules.MaxRules - 10 {
		fmt.Fprintf(&text, "- {key: user, value: u%d, rate_limit: {unit: minute, "+
			"requests_per_unit: 1}}\n", i)
	}
	form := []string{"base", "1", "reason", "all of them", "text", text.String()}
	ed.post("/domains/shop/check", form...).want(t, http.StatusOK, "9494 more rules differ")
	ed.post("/domains/shop/edit", form...).leads(t, "/domains/shop?saved=2")
	ed.get("/domains/shop/history").want(t, http.StatusOK, "more rules differ")
	s.inForce("shop", 2)
	s.page.asOf = s.page.asOf.Add(-statsLife)
	ed.get("/domains/shop").want(t, http.StatusOK, "not listed: 9940")
	ed.get("/domains/shop?filter=u9989").want(t, http.StatusOK, "user=u9989 1/minute")
	ed.get("/domains/shop?filter=none").want(t, http.StatusOK, "None of the 9990 rules")
}

// TestConflict: the form of an edit that was overtaken has the other's change and all that was
// typed. Saved again it is on top of the other's.
func TestConflict(t *testing.T) {
	s := newService(t)
	ed := s.as("ed")
	s.saved("shop", 1, strings.Replace(shop, "60}", "61}", 1))
	mine := strings.Replace(shop, "burst: 20", "burst: 30", 1)
	a := ed.post("/domains/shop/edit", "base", "1", "reason", "bursts", "text", mine)
	a.want(t, http.StatusConflict, "version 2 by olga", "as olga likes it",
		"user: 60/minute → 61/minute", "user: 61/minute → 60/minute", "burst: 30", "Your edit is of version 2")
	if !strings.Contains(a.text, `name="base" value="2"`) ||
		!strings.Contains(a.text, `value="bursts"`) {
		t.Error(a.text)
	}
	if s.newest("shop").Version != 2 {
		t.Error("it was saved")
	}
	both := strings.Replace(mine, "60}", "61}", 1)
	ed.post("/domains/shop/edit", "base", "2", "reason", "bursts", "text", both).
		leads(t, "/domains/shop?saved=3")
}
