package page

import (
	"net/http"
	"strings"
	"testing"
)

// TestLimitForm: the form changes the text that was typed, and all else in it stays. Nothing is
// saved by it, and no save leaves out what stands in it.
func TestLimitForm(t *testing.T) {
	s := newService(t)
	ed := s.as("ed")
	ed.get("/domains/shop/rule?path=user").want(t, http.StatusOK, "Change the limit")
	if a := ed.get("/domains/shop/edit?path=user"); !strings.Contains(a.text, `name="path" list="paths" value="user"`) ||
		!strings.Contains(a.text, `<option value="path=/search">`) {
		t.Errorf("the form does not offer the rule: %s", a.text)
	}
	post := func(text string, pairs ...string) answer {
		t.Helper()
		return ed.post("/domains/shop/edit", append([]string{"base", "1", "text", text, "reason", "r"}, pairs...)...)
	}
	post(shop, "do", "set", "path", "user", "number", "90", "unit", "hour", "kind", "quota").
		want(t, http.StatusOK, "The text is changed at user. Nothing is saved yet.", "key: user # each user",
			"rate_limit: {unit: hour, requests_per_unit: 90, kind: quota}", "user: 60/minute → 90/hour")
	post(shop, "do", "set", "path", "path=/search", "number", "7", "unit", "second", "burst", "9").
		want(t, http.StatusOK, "shadow_mode: true", "requests_per_unit: 7, name: search, burst: 9}")
	post(shop, "do", "set", "path", "user=ann,path=/a", "number", "7", "unit", "day").
		want(t, http.StatusOK, "value: ann", "user=ann,path=/a is new: 7/day by the calendar")
	post(shop, "do", "remove", "path", "user").want(t, http.StatusOK, "user is gone: 60/minute")
	for _, wrong := range []struct{ text, path, number, unit, burst, kind, says string }{
		{shop, "user", "", "minute", "", "", `The number of requests is ""`},
		{shop, "user", "-1", "minute", "", "", "not digits"},
		{shop, "user", "5, name: x", "minute", "", "", "not digits"},
		{shop, "user", "5", "minute", "5}", "", "The burst is"},
		{shop, "user", "5", "minute, name: x", "", "", "makes no sense"},
		{shop, "user", "5", "parsec", "", "", "makes no sense"},
		{shop, "user", "5", "minute", "", "slots, name: x", "makes no sense"},
		{shop, "user", "9223372036854775807", "minute", "", "", "requests_per_unit"},
		{shop, "user", "5", "day", "7", "", "burst"},
		{shop, "", "5", "minute", "", "", "path"},
		{shop, "user=\u202e\n<b>", "5", "minute", "", "", "path"},
		{"domain: [", "user", "5", "minute", "", "", "1 mistake"},
	} {
		a := post(wrong.text, "do", "set", "path", wrong.path, "number", wrong.number, "unit", wrong.unit,
			"burst", wrong.burst, "kind", wrong.kind)
		if a.want(t, http.StatusOK, wrong.says); strings.Contains(a.says(), "is changed at") {
			t.Errorf("%+v changes the text", wrong)
		}
	}
	post(shop, "do", "remove", "path", "nobody").want(t, http.StatusOK, "nobody: there is no such descriptor")
	post(shop, "do", "save", "path", "user", "number", "90").
		want(t, http.StatusUnprocessableEntity, "not in the text yet")
	if v := s.newest("shop").Version; v != 1 {
		t.Errorf("version %d was saved", v)
	}
	post(strings.Replace(shop, "60}", "61}", 1), "do", "save", "path", "user").
		leads(t, "/domains/shop?saved=2")
	post(shop, "do", "set", "path", "user", "number", "90", "unit", "hour").
		want(t, http.StatusConflict, "Somebody else was faster", "requests_per_unit: 90")
	s.as("vic").post("/domains/shop/edit", "base", "2", "text", shop, "do", "set", "path", "user",
		"number", "1", "unit", "day").want(t, http.StatusForbidden)
}
