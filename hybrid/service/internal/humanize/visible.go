package humanize

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// Visible returns HTML in which no character of a text turns the text around it, or cannot be seen:
// U+202E is shown as \u202e. Attributes, and what is typed in a textarea, stay as they are, since a
// form sends them back. The HTML is that of html/template, whose attributes have no < and no >.
func Visible(html []byte) []byte {
	if !bytes.ContainsFunc(html, hidden) {
		return html
	}
	var out []byte
	for len(html) > 0 {
		text, tag := html, []byte(nil)
		if i := bytes.IndexByte(html, '<'); i >= 0 {
			text, tag = html[:i], html[i:]
		}
		out = appendVisible(out, text)
		n := bytes.IndexByte(tag, '>') + 1
		if bytes.HasPrefix(tag, []byte("<textarea")) {
			n = bytes.Index(tag, []byte("</textarea>"))
		}
		if n <= 0 {
			return append(out, tag...)
		}
		out, html = append(out, tag[:n]...), tag[n:]
	}
	return out
}

func appendVisible(out, text []byte) []byte {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case !hidden(r):
			out = append(out, text[:n]...)
		case r > 0xffff:
			out = fmt.Appendf(out, `\U%08x`, r)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		text = text[n:]
	}
	return out
}

// hidden reports whether a character has to be shown by its number. The two joiners are parts of
// words in some languages.
func hidden(r rune) bool {
	switch {
	case r >= ' ' && r <= '~', r == '\n', r == '\r', r == '\t', r == '\u200c', r == '\u200d':
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}
