package accesslog

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// A record is a line of a log in the form in which it waits to be sorted: names
// are numbers, and the time may still be in a unit that nobody knows yet.
type record struct {
	stamp
	cost          int64
	key, upstream int32 // upstream is -1 if there is none
	count         int64 // requests that the line stands for
	verdict       Verdict
}

const (
	recordSize = 8 + 8 + 4 + 4 + 8
	kindShift  = 60      // of the kind, above the count
	verdictBit = 62      // of the verdict, above the kind
	inMemory   = 8 << 20 // bytes of a spool that need no file
)

// A spool is a list of records that is written once, then read as often as
// wanted, by several cursors at a time. Long ones are in a temporary file, which
// has no name any more and is gone when the program ends. (Where a system does
// not remove an open file, it stays in the folder for temporary files.)
type spool struct {
	mem  []byte
	file *os.File
	out  *bufio.Writer // to file
	n    int           // records
}

func (s *spool) add(r record) error {
	var b [recordSize]byte
	binary.LittleEndian.PutUint64(b[0:], uint64(r.value))
	binary.LittleEndian.PutUint64(b[8:], uint64(r.cost))
	binary.LittleEndian.PutUint32(b[16:], uint32(r.key))
	binary.LittleEndian.PutUint32(b[20:], uint32(r.upstream))
	binary.LittleEndian.PutUint64(b[24:], uint64(r.count)|uint64(r.kind)<<kindShift|uint64(r.verdict)<<verdictBit)
	s.n++
	if s.file == nil {
		if len(s.mem) < inMemory {
			s.mem = append(s.mem, b[:]...)
			return nil
		}
		if err := s.toFile(); err != nil {
			return err
		}
	}
	_, err := s.out.Write(b[:])
	return temporary(err)
}

// temporary is an error of the temporary file.
func temporary(err error) error {
	if err != nil {
		err = fmt.Errorf("temporary file: %w", err)
	}
	return err
}

func (s *spool) toFile() error {
	f, err := os.CreateTemp("", "ration-log-*")
	if err != nil {
		return temporary(err)
	}
	_ = os.Remove(f.Name()) // some systems keep it while it is open
	s.file, s.out = f, bufio.NewWriterSize(f, 1<<16)
	_, err = s.out.Write(s.mem)
	s.mem = nil
	return temporary(err)
}

// end is called after the last add, before the first cursor.
func (s *spool) end() error {
	if s.out == nil {
		return nil
	}
	err := s.out.Flush()
	s.out = nil
	return temporary(err)
}

// free gives the memory or the file back.
func (s *spool) free() {
	if s.file != nil {
		_ = s.file.Close() // nothing of it is wanted any more
	}
	*s = spool{}
}

// cursor reads the records from one number on and before another one.
func (s *spool) cursor(from, to int) *cursor {
	var r io.ReaderAt = bytes.NewReader(s.mem)
	if s.file != nil {
		r = s.file
	}
	part := io.NewSectionReader(r, int64(from)*recordSize, int64(to-from)*recordSize)
	return &cursor{bufio.NewReaderSize(part, min(1<<16, max(recordSize, (to-from)*recordSize)))}
}

type cursor struct{ r *bufio.Reader }

// next is the next record; io.EOF at the end.
func (c *cursor) next() (record, error) {
	b, err := c.r.Peek(recordSize)
	if errors.Is(err, io.EOF) {
		return record{}, err
	}
	if err != nil {
		return record{}, temporary(err)
	}
	last := binary.LittleEndian.Uint64(b[24:])
	r := record{
		stamp:    stamp{int64(binary.LittleEndian.Uint64(b[0:])), stampKind(last >> kindShift & 3)},
		cost:     int64(binary.LittleEndian.Uint64(b[8:])),
		key:      int32(binary.LittleEndian.Uint32(b[16:])),
		upstream: int32(binary.LittleEndian.Uint32(b[20:])),
		count:    int64(last & (1<<kindShift - 1)),
		verdict:  Verdict(last >> verdictBit),
	}
	_, err = c.r.Discard(recordSize)
	return r, err
}

// each calls do for all records.
func (s *spool) each(do func(record) error) error {
	c := s.cursor(0, s.n)
	for {
		r, err := c.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = do(r)
		}
		if err != nil {
			return err
		}
	}
}
