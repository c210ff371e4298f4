package accesslog

import (
	"bytes"
	"cmp"
	"errors"
)

var errNoTime = errors.New("no [time] before the request")

// parseCLF reads host ident user [time] and leaves the rest of the line
// alone: requests are sent by strangers and hold anything.
func parseCLF(line []byte) (entry, error) {
	// The time stands before the first quote. A time beyond it was put there
	// by a client, or belongs to a message quoted in a CSV field.
	head, request, _ := bytes.Cut(line, []byte{'"'})
	first, rest, _ := bytes.Cut(bytes.TrimLeft(head, " \t"), []byte{' '})
	host := cmp.Or(addressIn(head), string(first))
	// A user name may hold spaces and brackets: the first bracket that
	// closes after a time is the time.
	reason := errNoTime
	for {
		_, after, found := bytes.Cut(rest, []byte{'['})
		if !found {
			return entry{}, reason
		}
		rest = after
		// Times are shorter than 48 bytes. Without a bound, a line full of
		// brackets would take time by the square of its length.
		text, _, closed := bytes.Cut(rest[:min(len(rest), 48)], []byte{']'})
		if !closed {
			continue
		}
		day, err := parseCLFTime(string(text))
		at, err := dated(string(text), day, err)
		if err == nil {
			return entry{stamp: at, key: host, cost: 1, count: 1, verdict: answered(statusOf(request))}, nil
		}
		reason = err
	}
}

// statusOf is what follows a request, up to its closing quote and past it. Servers write quotes of
// clients with a backslash.
func statusOf(request []byte) []byte {
	for i := 0; i < len(request); i++ {
		switch request[i] {
		case '\\':
			i++
		case '"':
			status, _, _ := bytes.Cut(bytes.TrimPrefix(request[i+1:], []byte{' '}), []byte{' '})
			return status
		}
	}
	return nil
}
