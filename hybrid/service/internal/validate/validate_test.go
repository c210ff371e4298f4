package validate

import (
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	for _, try := range []struct {
		text           string
		domain, reason string // part of the error, or none
	}{
		{"shop", "", ""},
		{"a/b c\u00e9", "", ""},
		{"", "missing", "missing"},
		{" ", "", "missing"},
		{"*", "cannot", ""},
		{".", "cannot", ""},
		{"..", "cannot", ""},
		{"a\nb", "cannot", "cannot be read"},
		{"a\x00", "cannot", "cannot be read"},
		{"a\u0085", "cannot", "cannot be read"},
		{"a\xff", "cannot", "cannot be read"},
		{"a\u202eb", "cannot", "cannot be read"},
		{"a\u2066b", "cannot", "cannot be read"},
		{"a\u200bb", "cannot", "cannot be read"},
		{"a\ufeffb", "cannot", "cannot be read"},
		{"a\u2028b", "cannot", "cannot be read"},
		{"a\U000e0041b", "cannot", "cannot be read"},
		{"a\u200db", "cannot", ""}, // a joiner
		{"\u05e9\u05dc\u05d5\u05dd", "", ""},
		{strings.Repeat("x", 256), "", ""},
		{strings.Repeat("x", 257), "256 bytes", ""},
		{strings.Repeat("x", 4097), "256 bytes", "4096 bytes"},
	} {
		for what, got := range map[string]struct {
			err  error
			want string
		}{
			"domain": {Domain(try.text), try.domain}, "reason": {Reason(try.text), try.reason},
		} {
			if (got.err == nil) != (got.want == "") ||
				got.err != nil && !strings.Contains(got.err.Error(), got.want) {
				t.Errorf("%s %.20q: %v", what, try.text, got.err)
			}
		}
	}
}
