package accesslog

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// wide reads UTF-16, as Windows writes it, and passes over its byte order mark.
type wide struct {
	r     *bufio.Reader
	order binary.ByteOrder
	text  []byte // of a character, what is not handed out yet
	room  [utf8.UTFMax]byte
}

func (w *wide) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(w.text) == 0 {
			if err := w.next(); err != nil {
				return n, err
			}
		}
		copied := copy(p[n:], w.text)
		n, w.text = n+copied, w.text[copied:]
	}
	return n, nil
}

// next reads a character. Half of one at the end is dropped.
func (w *wide) next() error {
	units, err := w.r.Peek(4)
	if len(units) < 2 {
		return cmp.Or(err, io.ErrUnexpectedEOF)
	}
	size, c := 2, rune(w.order.Uint16(units))
	if utf16.IsSurrogate(c) {
		second := rune(0)
		if len(units) == 4 {
			second = rune(w.order.Uint16(units[2:]))
		}
		if c = utf16.DecodeRune(c, second); c != utf8.RuneError {
			size = 4
		}
	}
	if w.r.Discard(size); c != 0xfeff {
		w.text = utf8.AppendRune(w.room[:0], c)
	}
	return nil
}
