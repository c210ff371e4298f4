package report

import (
	"encoding/json"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// digits of a number are kept for the charts: more than they show, and half the
// size of all.
const digits = 7

// number is a float64 that JSON can hold: null where it is not finite.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	if !finite(float64(n)) {
		return []byte("null"), nil
	}
	return json.Marshal(rounded(float64(n), digits))
}

// plain is a value as page.js reads it: fields have names that begin small, and no list is null.
func plain(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Float64:
		return number(v.Float())
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = plain(v.Index(i))
		}
		return list
	case reflect.Struct:
		fields := map[string]any{}
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			fields[strings.ToLower(name[:1])+name[1:]] = plain(v.Field(i))
		}
		return fields
	case reflect.Pointer:
		if !v.IsNil() {
			return plain(v.Elem())
		}
	}
	return v.Interface()
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func rounded(v float64, digits int) float64 {
	r, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64) // NaN and Inf too
	return r
}

// format writes v as a reader wants it: four digits or more, thousands
// separated. page.js has the same rule for what it writes.
func format(v float64) string {
	if !finite(v) {
		return "-"
	}
	a := math.Abs(v)
	var s string
	switch {
	case a >= 1e15: // more digits than a float64 has
		return strconv.FormatFloat(v, 'g', 4, 64)
	case a >= 100:
		s = strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 1:
		s = strconv.FormatFloat(v, 'f', 2, 64)
	case a >= 1e-6:
		s = strconv.FormatFloat(rounded(v, 4), 'f', -1, 64)
	default: // rounding noise
		return "0"
	}
	whole, part, _ := strings.Cut(s, ".")
	if part = strings.TrimRight(part, "0"); part != "" {
		part = "." + part
	}
	sign := ""
	if whole[0] == '-' {
		sign, whole = "-", whole[1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return sign + whole + part
}

func percent(part, all float64) string {
	if !finite(part) || !finite(all) || all <= 0 {
		return ""
	}
	p := 100 * part / all
	if p > 0 && p < 0.01 {
		return "< 0.01 %"
	}
	return strconv.FormatFloat(p, 'f', 2, 64) + " %"
}

// quantity matches a number, perhaps with a short unit, or a range of such.
var quantity = regexp.MustCompile(`^[<>≤≥~+−-]?\s?\d[\d,.]*(e[+-]?\d+)?(\s?(%|[a-zA-Zµ]{1,7})?(/[a-z]+)?)?([-–][\d,.]+)?$`)

// isNumeric tells of each column whether it is to be aligned to the right.
func isNumeric(columns int, rows [][]string) []bool {
	numeric := make([]bool, columns)
	for c := range numeric {
		for _, row := range rows {
			if c >= len(row) {
				continue
			}
			switch cell := row[c]; {
			case quantity.MatchString(cell):
				numeric[c] = true
				continue
			case cell == "", cell == "-", cell == "–", cell == "none", cell == "NaN":
				continue
			}
			numeric[c] = false
			break
		}
	}
	return numeric
}
