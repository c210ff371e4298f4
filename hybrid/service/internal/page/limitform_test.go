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
	for path, fields := range map[string][]string{
		"user": {`name="path" list="paths" value="user"`, `<option value="path=/search">`, `value="60"`,
			`<option selected>minute</option>`},
		"address":                 {`value="5"`, `value="20"`, `<option selected>second</option>`},
		"user&number=7&unit=hour": {`name="of" value="user"`, `value="7"`, `<option selected>hour</option>`},
	} {
		a := ed.get("/domains/shop/edit?path=" + path)
		for _, field := range fields {
			if !strings.Contains(a.text, field) {
				t.Errorf("%s: the form does not offer %s: %s", path, field, a.text)
			}
		}
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
	// What nobody has seen in the form stays, and so does what has no field there.
	const own = `domain: shop
descriptors:
  - key: user
    transform: ip/64
    overdraft: true
    metadata: {team: growth}
    rate_limit: {unit: day, requests_per_unit: 100, kind: quota, offset: -5h30m, name: daily}
  - key: app
    classes: [{value: paid, floor: 0.5}, {value: free}]
    rate_limit: {unit: second, requests_per_unit: 10, burst: 40}
  - key: team
    rate_limit: {unlimited: true}
`
	post(own, "do", "set", "path", "user", "number", "200").want(t, http.StatusOK,
		"{unit: day, requests_per_unit: 200, kind: quota, offset: -5h30m0s, name: daily}",
		"transform: ip/64", "overdraft: true", "metadata: {team: growth}",
		"200/day by the calendar at UTC-5.5 h")
	post(own, "do", "set", "path", "app", "number", "20").want(t, http.StatusOK,
		"classes: [{value: paid, floor: 0.5}, {value: free}]",
		"{unit: second, requests_per_unit: 20, burst: 40}")
	a := post(own, "do", "show", "path", "user", "number", "7")
	a.want(t, http.StatusOK, "app is new: 10/second burst 40")
	for _, field := range []string{
		`name="of" value="user"`, `name="number" inputmode="numeric" size="10" maxlength="20" value="100"`,
		`<option selected>day</option>`, `<option selected>quota</option>`,
		`name="offset" size="8" maxlength="20" value="-5h30m"`,
	} {
		if !strings.Contains(a.text, field) {
			t.Errorf("the form has no %s: %s", field, a.text)
		}
	}
	// What was seen there, and emptied, goes.
	post(own, "do", "set", "path", "app", "of", "app", "number", "20", "unit", "second").
		want(t, http.StatusOK, "{unit: second, requests_per_unit: 20}")
	post(own, "do", "set", "path", "team", "number", "3", "unit", "minute").
		want(t, http.StatusOK, "rate_limit: {unit: minute, requests_per_unit: 3}")
	post(own, "do", "show", "path", "nobody").want(t, http.StatusOK, "The text has no limit at")
	post("domain: [", "do", "show", "path", "user").want(t, http.StatusOK, "or has mistakes")
	post(own, "do", "set", "path", "user", "number", "5", "offset", "noon}").
		want(t, http.StatusOK, "The offset is")
	post(shop, "do", "set", "path", "tenant", "number", "5").want(t, http.StatusOK, "The unit is missing")
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
