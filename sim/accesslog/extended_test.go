package accesslog_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/seed13b07268/ration/sim/accesslog"
	"github.com/seed13b07268/ration/sim/simtest"
)

// CloudFront parts by tabs what IIS parts by spaces. Each new directive of IIS, which writes some when
// it starts, counts from there on, and what has none of the columns that are needed is bad.
func TestExtended(t *testing.T) {
	for _, c := range []struct{ name, file, want string }{
		{"CloudFront", "#Version: 1.0\n#Fields: date time x-edge-location c-ip cs(User-Agent) sc-status\n" +
			"2026-11-30\t12:00:01\tFRA2\t203.0.113.7\ta b\t200\n2026-11-30\t12:00:00\tFRA2\t2001:db8::1\t-\t429\n",
			"12:00:00 \"2001:db8::1\" 1\n12:00:01 \"203.0.113.7\" 1\nlines 2 bad 0 inversions 1 spread true\n"},
		{"other columns", "#Fields: time c-ip upstream\n#Date: 2026-11-30 00:00:00\n23:59:59 h a\n" +
			"#Date: 2026-12-01 00:00:00\n#Fields: c-ip time\ng 00:00:00\n#Fields: c-ip\ng\n#Remark: x\n#Fields: date time\n" +
			"2026-12-01 00:00:01\n",
			"23:59:59 \"h\" 1 by a\n00:00:00 \"g\" 1\n00:00:01 \"\" 1\nlines 4 bad 1 inversions 0 spread true\n" +
				"accesslog: line 8: no time column (msec, time_iso8601, @timestamp, timestamp, datetime, start_time, ts, " +
				"time, time_local, created_at, created, date) among \"c-ip\": name the column that has it " +
				"(load.trace.time, -time-col)\n"},
	} {
		if got := show(read(t, c.file, accesslog.Options{})); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
	log, err := readFile("testdata/iis.log", accesslog.Options{KeyCol: "cs-username", UpstreamCol: "s-ip"})
	simtest.OK(t, err)
	denied, q := 0, accesslog.Request{}
	for all := log.Requests(); all.Next(&q); {
		if q.Verdict == accesslog.Denied {
			denied++
		}
	}
	if log.Format != accesslog.W3C || log.Len() != 4 || len(log.Upstreams) != 2 || denied != 1 {
		t.Errorf("%v: %d denied of %s", log.Format, denied, show(log))
	}
}

// A time of day has its date in another column, and dates are written as is said.
func TestDatesApart(t *testing.T) {
	const american = "1/2/2006 3:04:05 PM"
	for _, c := range []struct{ file, layout string }{
		{"Date,Time,ip\n2026-11-30,12:00:00,h\n2026-11-30,12:00:01.5,h\n", ""},
		{"date,time,ip\n30.11.2026,2026-11-30 12:00:00,h\n30.11.2026,2026-11-30 12:00:01.5,h\n", ""},
		{"date,time,ip\n20261130,120000,h\n20261130,120001.5,h\n", ""},
		{`{"date":"2026/11/30","time":"12:00:00","ip":"h"}` + "\n" + `{"date":"2026/11/30","time":"12:00:01.5","ip":"h"}`, ""},
		{"#TYPE Event\r\n\"time\",\"ip\"\r\n\"11/30/2026 12:00:00 PM\",\"h\"\r\n\"11/30/2026 12:00:01.5 PM\",\"h\"\r\n", american},
		{"11/30/2026 12:00:00 PM,h\n11/30/2026 12:00:01.5 PM,h\n", american},
		{`{"time":"11/30/2026 12:00:00 PM","ip":"h"}` + "\n" + `{"time":"11/30/2026 12:00:01.5 PM","ip":"h"}`, american},
	} {
		log := read(t, c.file, accesslog.Options{TimeLayout: c.layout})
		if got := log.Start.Format("2006-01-02 15:04:05") + fmt.Sprint(" ", log.Span); got != "2026-11-30 12:00:00 1.5s" {
			t.Errorf("%q: %s", c.file, got)
		}
	}
	const noon = "2026-11-30 12:00:00"
	for _, c := range []struct{ file, layout, want string }{
		{"date,time\n2026-11-30,12h00\n", "15h04", noon}, {"date,time\n30.11.2026,12:00 PM\n", "3:04 PM", noon},
		{"12.00.00 x=1\n", "15.04.05", "1972-01-01 12:00:00"}, {"I1130 12:00:00 x\n", "I0102 15:04:05", "1972-11-30 12:00:00"},
	} {
		if got := read(t, c.file, accesslog.Options{TimeLayout: c.layout}).Start.Format(time.DateTime); got != c.want {
			t.Errorf("%q: %s, want %s", c.file, got, c.want)
		}
	}
	if log := read(t, "date,time,ip\n2026-11-30,9:00:00,h\n", accesslog.Options{}); log.Start.Hour() != 9 {
		t.Errorf("an hour of one digit: %v", log.Start)
	}
	for _, c := range []struct{ layout, want string }{
		{"2006-01-02", `accesslog: time layout "2006-01-02" (time_layout, -time-layout): has no hour`},
		{"YYYY-MM-DD hh:mm:ss", `time layout "YYYY-MM-DD hh:mm:ss"`}, {"%Y", `time layout "%Y"`},
		{"1/2/2006 15:04", `line 2: time "30/11/2026 12:00": want "1/2/2006 15:04" (time_layout, -time-layout)`},
	} {
		_, err := accesslog.Read(strings.NewReader("time\n30/11/2026 12:00\n"), accesslog.Options{TimeLayout: c.layout})
		simtest.Refused(t, c.layout, err, c.want)
	}
}

// UTF-16 with its mark is read as UTF-8 is. Of half a character nothing is left.
func TestUTF16(t *testing.T) {
	iis, err := os.ReadFile(filepath.Join("testdata", "iis.log"))
	simtest.OK(t, err)
	long := "time,who\n" + strings.Repeat("1700000000.5,"+strings.Repeat("😀é", 8)+"\n", 1<<15) // above the buffers
	for _, text := range []string{string(iis), "\n\ntime,who\r\n1700000000.5,é\r\n1700000001.5,😀", long} {
		want := show(read(t, text, accesslog.Options{}))
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			file := order.AppendUint16(nil, 0xfeff)
			for _, unit := range utf16.Encode([]rune(text)) {
				file = order.AppendUint16(file, unit)
			}
			for _, file := range [][]byte{file, append(bytes.Clone(file), 0), pack(t, file)} {
				if got := show(read(t, string(file), accesslog.Options{})); got != want {
					t.Errorf("%v: %.300q, want %.300q", order, got, want)
				}
			}
		}
	}
	const lone = "\xff\xfet\x00i\x00m\x00e\x00\n\x001\x00\n\x002\x00\x00\xd8"
	if got := show(read(t, lone, accesslog.Options{})); !strings.Contains(got, "lines 2 bad 1") {
		t.Error(got)
	}
}
