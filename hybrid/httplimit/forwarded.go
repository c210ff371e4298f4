package httplimit

import "strings"

// malformed is no address: what stands there ends the search for the client.
const malformed = "_"

// lastForwarded cuts the last element off a Forwarded header (RFC 7239), and returns its "for".
// An element that has none, or is malformed, returns what is no address.
//
// It reads from the right, quoted strings as well. Read from the left, a quotation mark that a
// client leaves open would hide what the proxies have written after it (TestOpenQuote).
func lastForwarded(line string) (rest, hop string) {
	start := lastOutside(line, ',')
	element := strings.Trim(line[start+1:], " \t")
	rest = line[:max(start, 0)]
	if element == "" {
		return rest, ""
	}
	for element != "" {
		start := lastOutside(element, ';')
		name, value, found := strings.Cut(strings.Trim(element[start+1:], " \t"), "=")
		element = element[:max(start, 0)]
		if !found || !strings.EqualFold(name, "for") {
			continue
		}
		if hop != "" {
			return rest, malformed // it says two things
		}
		if hop = unquote(value); hop == "" {
			return rest, malformed
		}
	}
	if hop == "" {
		return rest, malformed
	}
	return rest, hop
}

// lastOutside returns the index of the last separator that is not in a quoted string, or -1. A
// string that does not begin reaches to the left end, and what it is in is no address.
func lastOutside(s string, separator byte) int {
	quoted := false
	for i := len(s) - 1; i >= 0; i-- {
		switch {
		case s[i] == '"' && !(quoted && escaped(s, i)):
			quoted = !quoted
		case s[i] == separator && !quoted:
			return i
		}
	}
	return -1
}

// escaped reports whether an odd number of backslashes stands before s[i].
func escaped(s string, i int) bool {
	n := len(s[:i]) - len(strings.TrimRight(s[:i], `\`))
	return n%2 == 1
}

// unquote returns what is in a quoted string, or s itself if it is none. No address needs an
// escape: a string that has one stays as it is, and is no address.
func unquote(s string) string {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' && !strings.Contains(s, `\`) {
		return s[1 : len(s)-1]
	}
	return s
}
