//go:build linux || darwin

package chaos

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// readMessage returns the next message of the Redis protocol, RESP2 or RESP3, as
// it is on the wire. (Libraries hand out values; what is to be lost or repeated
// are bytes.)
func readMessage(r *bufio.Reader) ([]byte, error) { return appendMessage(nil, r) }

func appendMessage(b []byte, r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	b = append(b, line...)
	parts := 0
	switch line[0] {
	case '+', '-', ':', '_', ',', '#', '(': // all of it is the line
		return b, nil
	case '$', '=', '!', '*', '~', '>':
		parts = 1
	case '%':
		parts = 2
	default:
		return nil, fmt.Errorf("a message begins with %.20q", line)
	}
	n, err := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
	if err != nil {
		return nil, fmt.Errorf("a message begins with %.20q", line)
	}
	if bytes.IndexByte([]byte("$=!"), line[0]) >= 0 {
		if n < 0 {
			return b, nil
		}
		text := make([]byte, n+2)
		_, err := io.ReadFull(r, text)
		return append(b, text...), err
	}
	for range n * parts {
		if b, err = appendMessage(b, r); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// isScript reports whether a request runs a script: these are the messages of
// package lease.
func isScript(request []byte) bool {
	return bytes.Contains(request[:min(len(request), 32)], []byte("\r\neval"))
}

// isPush reports whether a message from the server answers no request.
func isPush(reply []byte) bool { return reply[0] == '>' }
