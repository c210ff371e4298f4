package rules

import "fmt"

// how says what a value in the name of a bucket is.
type how byte

const (
	raw     how = '=' // the descriptor's own
	changed how = '~' // what a transform has made of it
	shared  how = '^' // the wildcard that all values share
)

// trialMark stands at the end of the name of a trial's bucket.
const trialMark = "!trial"

// A stored entry is one of the name of a bucket.
type stored struct {
	Entry
	how how
}

// appendStored appends an entry to the name of a bucket.
func appendStored(b []byte, s stored) []byte {
	if len(b) > 0 {
		b = append(b, ',')
	}
	b = appendText(b, s.Key)
	if s.Value == "" && s.how == raw {
		return b
	}
	return appendText(append(b, byte(s.how)), s.Value)
}

// parseStored reads the name of a bucket: what appendStored has written, and the mark behind it,
// which begins with !.
func parseStored(name string) (entries []stored, mark string, err error) {
	for rest := name; ; {
		var s stored
		var ok bool
		if s.Key, rest, ok = cutText(rest); !ok {
			return nil, "", fmt.Errorf("rules: %.200q is no name of a bucket", name)
		}
		s.how = raw
		if rest != "" && rest[0] != ',' && rest[0] != '!' {
			s.how = how(rest[0])
			if s.Value, rest, ok = cutText(rest[1:]); !ok || !s.how.known() {
				return nil, "", fmt.Errorf("rules: %.200q is no name of a bucket", name)
			}
		}
		entries = append(entries, s)
		if rest == "" || rest[0] == '!' {
			return entries, rest, nil
		}
		if rest[0] != ',' {
			return nil, "", fmt.Errorf("rules: %.200q is no name of a bucket", name)
		}
		rest = rest[1:]
	}
}

func (h how) known() bool { return h == raw || h == changed || h == shared }
