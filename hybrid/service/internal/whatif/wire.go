package whatif

import (
	"encoding/binary"
	"errors"
	"math"
	"time"
)

var errLong = errors.New("whatif: the name of the rule is too long to ask others")

// fit is the part as bytes, at most so many: of fewer keys, or of a shorter time, if need be.
func (p part) fit(most int) []byte {
	text := p.encode()
	for len(text) > most {
		p = p.thinner()
		text = p.encode()
	}
	return text
}

// thinner is about half of a part.
func (p part) thinner() part {
	keys := 0
	for _, name := range p.names {
		if name != "" {
			keys++
		}
	}
	n := len(p.chunks)
	switch {
	case p.most > 1 && (keys >= fewKeys || n == 1 && keys > 1):
		next := part{make([]string, len(p.names)), make([]chunk, n), p.most / 2, p.from}
		for i, name := range p.names {
			if hash(name) <= next.most {
				next.names[i] = name
			}
		}
		for i, c := range p.chunks {
			next.chunks[i], _ = c.only(func(key int32) bool { return next.names[key] != "" })
		}
		return next
	case n > 1:
		rest := p.chunks[n/2:]
		return part{p.names, rest, p.most, time.UnixMilli(rest[0].minute * minute)}
	}
	return part{most: p.most, from: time.Now()} // nothing of it fits
}

// encode writes a part.
func (p part) encode() []byte {
	b := binary.AppendUvarint(nil, p.most)
	b = binary.AppendUvarint(b, uint64(p.from.UnixMilli()))
	b = binary.AppendUvarint(b, uint64(len(p.names)))
	for _, name := range p.names {
		b = binary.AppendUvarint(b, uint64(len(name)))
		b = append(b, name...)
	}
	for _, c := range p.chunks {
		b = binary.AppendUvarint(b, uint64(c.minute))
		b = binary.AppendUvarint(b, uint64(len(c.text)))
		b = append(b, c.text...)
	}
	return b
}

// decode reads what encode has written, or reports false.
func decode(b []byte) (p part, ok bool) {
	good := true
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			good, b = false, nil
			return 0
		}
		b = b[n:]
		return v
	}
	bytes := func() []byte {
		n := number()
		if n > uint64(len(b)) {
			good, b = false, nil
			return nil
		}
		text := b[:n]
		b = b[n:]
		return text
	}
	p.most = number()
	from := number()
	p.from = time.UnixMilli(int64(min(from, uint64(time.Now().UnixMilli()))))
	names := number()
	good = good && p.most > 0 && names <= uint64(len(b))
	for i := uint64(0); good && i < names; i++ {
		p.names = append(p.names, string(bytes()))
	}
	for good && len(b) > 0 {
		p.chunks = append(p.chunks, chunk{int64(min(number(), math.MaxInt64/uint64(2*minute))), bytes()})
	}
	return p, good
}
