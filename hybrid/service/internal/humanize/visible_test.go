package humanize

import "testing"

func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"<p>a b\n</p>":                           "<p>a b\n</p>",
		"<b>a\u202eb</b>\u2066c":                 `<b>a\u202eb</b>\u2066c`,
		"<b>\U000e0041\x1b</b>":                  `<b>\U000e0041\u001b</b>`,
		"<i title=\"\u202e\">\u202e</i>":         "<i title=\"\u202e\">\\u202e</i>",
		"<textarea>\u202e<b></textarea>\u202e":   "<textarea>\u202e<b></textarea>\\u202e",
		"\u05e9\u05dc\u200d\u05d5\u202e":         "\u05e9\u05dc\u200d\u05d5" + `\u202e`,
		"a\u202e<":                               `a\u202e<`,
		"a\u202e<textarea>\u202e":                "a\\u202e<textarea>\u202e",
		"\ufeff<p>\xff\u200b":                    "\\ufeff<p>\xff\\u200b",
		"<pre>\u202e" + "&lt;</pre>\u2028":       `<pre>\u202e&lt;</pre>\u2028`,
		"<input value=\"\u202e\"><p>x\u061c</p>": "<input value=\"\u202e\"><p>x\\u061c</p>",
	} {
		if got := string(Visible([]byte(text))); got != want {
			t.Errorf("%q: %q, not %q", text, got, want)
		}
	}
}
