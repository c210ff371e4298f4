package scenario

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Set sets one field, named by its path such as policy.batch, to a value in
// YAML; a text needs no quotes. What it is instead of, see Excludes, is taken out.
// Then Resolve again. After an error the scenario is as before.
func (s *Scenario) Set(path, value string) error {
	field, err := fieldType(path)
	if err != nil {
		return fmt.Errorf("scenario: %w", err)
	}
	if strings.ContainsAny(value, "\r\n") { // it could set other fields, too
		return fmt.Errorf("scenario: %s: %.40q has several lines", path, value)
	}
	if field.Kind() == reflect.String &&
		!strings.HasPrefix(value, `"`) && !strings.HasPrefix(value, "'") {
		value = quote(value)
	}
	text := ""
	names := strings.Split(path, ".")
	for i, name := range names {
		text += strings.Repeat(" ", i) + name + ":"
		if i < len(names)-1 {
			text += "\n"
		}
	}
	changed := s.Clone()
	changed.makeRoom(path)
	text += " " + value
	if err := yaml.Load([]byte(text), changed, yaml.WithKnownFields()); err != nil {
		return fmt.Errorf("scenario: %s=%s: %w", path, value, wanted(plain(err), field))
	}
	if err := wroteZero([]byte(text), changed); err != nil {
		return fmt.Errorf("scenario: %s=%s: %w", path, value, err)
	}
	if path == "limit" && !HasRate(changed.Limit.Limit) {
		changed.SetLimit(changed.Limit.Limit)
	}
	*s = *changed
	return nil
}

// instead are fields of the load of which a scenario has one, with all within.
var instead = [][]string{
	{"load.offered", "load.rate", "load.clients"},
	{"load.cost", "load.costs"},
}

// loads are the fields that a log decides.
var loads = []string{
	"load.offered", "load.rate", "load.clients", "load.cost", "load.costs", "load.arrivals", "load.cv", "load.diurnal", "load.flash",
}

// Excludes reports whether a scenario that has the field a does not have b.
func Excludes(a, b string) bool {
	a, b = loadField(a), loadField(b)
	for _, group := range instead {
		if a != b && slices.Contains(group, a) && slices.Contains(group, b) {
			return true
		}
	}
	return a == "load.trace" && slices.Contains(loads, b) ||
		b == "load.trace" && slices.Contains(loads, a)
}

// loadField is the field of the load that a path is in.
func loadField(path string) string {
	names := strings.SplitN(path, ".", 3)
	return strings.Join(names[:min(2, len(names))], ".")
}

// makeRoom takes out what the field with this path excludes. A log gives way to
// nothing: who has one and sets a rate has not seen it.
func (s *Scenario) makeRoom(path string) {
	load := reflect.ValueOf(&s.Load).Elem()
	for i := range load.NumField() {
		name := yamlName(load.Type().Field(i))
		if name != "trace" && Excludes(path, "load."+name) {
			load.Field(i).SetZero()
		}
	}
}

// yamlName is the name of a field in YAML.
func yamlName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return name
}

// quote writes a text so that YAML reads it again, whatever it begins with.
func quote(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(fmt.Sprintf("scenario: a text cannot be written: %v", err))
	}
	return string(quoted)
}

// IsField reports whether a path is one that Set knows.
func IsField(path string) bool {
	_, err := fieldType(path)
	return err == nil
}

// fieldType is the type of the field with this path.
func fieldType(path string) (reflect.Type, error) {
	t := reflect.TypeFor[Scenario]()
	above := "a scenario"
	for name := range strings.SplitSeq(path, ".") {
		if t.Kind() == reflect.Slice {
			return nil, fmt.Errorf("%s is a list: set all of it, such as %[1]s=[...]", above)
		}
		found := t.Kind() == reflect.Struct && t != reflect.TypeFor[Rate]() &&
			t != reflect.TypeFor[Limit]() &&
			t != reflect.TypeFor[Keys]()
		if found {
			found = false
			for i := range t.NumField() {
				if yamlName(t.Field(i)) == name && name != "" {
					t, above, found = t.Field(i).Type, name, true
					break
				}
			}
		}
		if !found {
			return nil, fmt.Errorf("%.80q is no field: %s has no %.40q", path, above, name)
		}
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
	}
	return t, nil
}

// Clone returns a copy that can be Set without changing s.
func (s *Scenario) Clone() *Scenario {
	c, err := Parse([]byte(s.Text()), s.open)
	if err != nil {
		panic(fmt.Sprintf("scenario: what was written cannot be read: %v", err))
	}
	c.Unwritten, c.file, c.replay, c.Redis.trips = s.Unwritten, s.file, s.replay, s.Redis.trips
	return c
}
