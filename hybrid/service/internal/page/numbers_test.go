package page

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestMistakeLeadsToItsLine: the number of a line with mistakes is there once, and each mistake
// leads to it, in the page and in what a check brings.
func TestMistakeLeadsToItsLine(t *testing.T) {
	s := newService(t)
	ed := s.as("ed")
	page := ed.get("/domains/shop/edit")
	if strings.Contains(page.text, `id="line-`) || !strings.Contains(page.text, "<pre>1\n2\n3\n") {
		t.Errorf("without a mistake: %.3000s", page.text)
	}
	typed := []string{"base", "1", "reason", "mine", "text", strings.Replace(shop,
		"{unit: minute, requests_per_unit: 60}", "{unit: mintue, requests_per_unit: sixty}", 1)}
	for path, status := range map[string]int{
		"/domains/shop/check": http.StatusOK, "/domains/shop/edit": http.StatusUnprocessableEntity,
	} {
		answer := ed.post(path, typed...)
		answer.want(t, status, "2 mistakes Line 4, column 24 ,", "Line 4, column 51 ,")
		text := answer.text
		if strings.Count(text, `<a href="#line-4">`) != 2 || strings.Count(text, `id="line-`) != 1 ||
			!strings.Contains(text, "3\n<a id=\"line-4\">4</a>\n5\n6\n") {
			t.Errorf("%s: %.3000s", path, text)
		}
		if brings := strings.Contains(text, "hx-swap-oob"); brings != strings.HasSuffix(path, "check") {
			t.Errorf("%s takes the place of the numbers: %v", path, brings)
		}
	}
}

// TestNumbersAreBounded: a text has numbers for its lines and some more, but not for millions. A
// mistake below them leads nowhere.
func TestNumbersAreBounded(t *testing.T) {
	for _, lines := range []int{1, 500, mostNumbers + 7} {
		text := strings.Repeat("\n", lines-1) + "wrong: 1"
		v := judge("shop", nil, []byte(text))
		numbers := ""
		for _, n := range v.Numbers {
			if numbers += n.Text; n.Line > 0 {
				numbers += fmt.Sprint(n.Line)
			}
		}
		last := min(lines+spareNumbers, mostNumbers)
		if n := strings.Count(numbers, "\n"); n != last ||
			!strings.HasSuffix(numbers, fmt.Sprintf("\n%d\n", last)) {
			t.Errorf("%d lines: %d numbers, %q", lines, n, numbers[max(0, len(numbers)-20):])
		}
		if len(v.Mistakes) == 0 || v.Mistakes[0].Line != lines ||
			v.Mistakes[0].Numbered != (lines <= mostNumbers) {
			t.Errorf("%d lines: %+v", lines, v.Mistakes)
		}
	}
}
