package accesslog_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/seed13b07268/ration/sim/accesslog"
)

func FuzzRead(f *testing.F) {
	for _, name := range []string{"combined.log", "tenants.csv", "nginx.json", "envoy.log", "alb.log", "iis.log", "nginx_error.log"} {
		file, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		zipped := pack(f, file)
		for _, file := range [][]byte{file, zipped, zipped[:len(zipped)/2]} {
			for format := range uint8(9) {
				f.Add(file, format, "", "", "")
			}
			f.Add(file, uint8(2), "Tenant", "In+Out", "date;time")
			f.Add(file, uint8(3), "Request", "status+status", "Status")
		}
	}
	f.Add([]byte("ts\tkey\tcost\n1700158546680\ta\t1e3\n-1\tb\tNaN\n1e10\t\"c\t5"), uint8(2), "key", "cost", "ts")
	f.Add([]byte(`{"ts":1700158546680590001,"a.b":{"c":"\u00e9"},"cost":"1","cost":1e3,"a":{"b":{"c":7,"d":[{}]}}}`), uint8(3), "a.b.c", "cost", "A.B.C")
	f.Fuzz(func(t *testing.T, file []byte, format uint8, key, cost, upstream string) {
		o := accesslog.Options{Format: accesslog.Format(format % 10), KeyCol: key, CostCol: cost, UpstreamCol: upstream, Seed: 7}
		log, err := accesslog.Read(bytes.NewReader(file), o)
		again, err2 := accesslog.Read(bytes.NewReader(file), o)
		if !reflect.DeepEqual(log, again) || (err == nil) != (err2 == nil) {
			t.Fatalf("read twice: %+v, %v and %+v, %v", log, err, again, err2)
		}
		if err != nil {
			if log != nil || !strings.HasPrefix(err.Error(), "accesslog: ") || len(err.Error()) > 2500+10*(len(key)+len(cost)+len(upstream)) {
				t.Fatalf("log %v, error %.3000v", log, err)
			}
			return
		}
		if log.Len() == 0 || log.Lines != log.Len()+log.Bad || log.Inversions >= log.Len() {
			t.Fatalf("lines %d, good %d, bad %d, inversions %d", log.Lines, log.Len(), log.Bad, log.Inversions)
		}
		if len(log.BadSamples) != min(log.Bad, 5) {
			t.Fatalf("%d samples of %d bad lines", len(log.BadSamples), log.Bad)
		}
		all := requests(log)
		for i, q := range all {
			if i > 0 && q.At.Before(all[i-1].At) {
				t.Fatalf("request %d at %v, after one at %v", i, q.At, all[i-1].At)
			}
			if y := q.At.Year(); q.Cost < 1 || q.Cost > 1<<32 || y < 1970 || y > 2200 || q.At.Location() != time.UTC {
				t.Fatalf("request %d: %+v", i, q)
			}
		}
	})
}

// What is picked out of an object is what encoding/json finds in it.
func FuzzObject(f *testing.F) {
	f.Add(`{"a":"x","b":[{"a":"}"}],"c":{"a":1}}`, "a")
	f.Add(` {"a" : -1.50e+3 , "b\\":"\\\"","\u0061":"\ud83d\ude00"}`, "a")
	f.Add(`{"":{},"a":null,"a":true,"a":"{\"a\":[","A":"z"}`, "A")
	f.Fuzz(func(t *testing.T, object, name string) {
		var values map[string]any
		d := json.NewDecoder(strings.NewReader(object))
		d.UseNumber()
		if d.Decode(&values) != nil || d.More() || values == nil || strings.ContainsAny(object, "\r\n") ||
			strings.Contains(name, ".") || !utf8.ValidString(object) || !json.Valid([]byte(object)) {
			t.Skip("not an object on one line, or a name that means another place")
		}
		want, ok := "", true
		switch v := values[name].(type) {
		case string:
			want = strings.TrimSpace(v)
		case json.Number:
			want = v.String()
		default:
			ok = false // the name in another case may be there
		}
		log, err := accesslog.Read(strings.NewReader(`{"t":1.5,"o":`+object+`,"z":"o"}`),
			accesslog.Options{Format: accesslog.JSON, TimeCol: "t", KeyCol: "o." + name, UpstreamCol: "Z"})
		if ok && (err != nil || requests(log)[0].Key != want || requests(log)[0].Upstream != "o") {
			t.Errorf("%s: %q is %+v, %v, want %q", object, name, log, err, want)
		}
	})
}
