package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v4"
)

// An Opener opens a file that a scenario names.
type Opener func(name string) (io.ReadCloser, error)

// Folder opens files whose names are relative to a folder.
func Folder(dir string) Opener {
	return func(name string) (io.ReadCloser, error) { return openFile(filepath.Join(dir, name)) }
}

// Parse reads one scenario as it is written: Resolve it before its use. Files
// with relative names are opened by open.
func Parse(text []byte, open Opener) (*Scenario, error) {
	s := &Scenario{open: open, file: &logFile{}}
	if blank(text) {
		return s, nil
	}
	if err := yaml.Load(text, s, yaml.WithKnownFields()); err != nil {
		return nil, fmt.Errorf("scenario: %w", plain(err))
	}
	if err := wroteZero(text, s); err != nil {
		return nil, fmt.Errorf("scenario: %w", err)
	}
	return s, nil
}

// Of parses and resolves a scenario.
func Of(text string) (*Scenario, error) {
	s, err := Parse([]byte(text), nil)
	if err == nil {
		err = s.Resolve()
	}
	return s, err
}

// usual are the defaults of all fields that have some.
var usual = sync.OnceValue(func() *Scenario {
	s := &Scenario{}
	if err := s.Resolve(); err != nil {
		panic(fmt.Sprintf("scenario: the defaults are not sound: %v", err))
	}
	s.Load.Trace = &Trace{Speedup: 1}
	return s
})

// wroteZero returns an error that names the field that is written, and is 0, though its default
// is another one: it would mean the default.
func wroteZero(text []byte, s *Scenario) error {
	var written map[string]any
	if err := yaml.Load(text, &written); err != nil {
		return plain(err)
	}
	return zeroIn(written, reflect.ValueOf(*s), reflect.ValueOf(*usual()), "")
}

// zeroIn looks at the fields of a struct that are written.
func zeroIn(written map[string]any, read, usual reflect.Value, above string) error {
	for i := range read.NumField() {
		name := yamlName(read.Type().Field(i))
		value, x, usual := written[name], reflect.Indirect(read.Field(i)), reflect.Indirect(usual.Field(i))
		if name == "" || value == nil || !usual.IsValid() {
			continue
		}
		if inner, ok := value.(map[string]any); ok && x.Kind() == reflect.Struct {
			if err := zeroIn(inner, x, usual, above+name+": "); err != nil {
				return err
			}
		} else if (x.CanInt() || x.CanFloat()) && x.IsZero() && !usual.IsZero() {
			instead := fmt.Sprint(usual)
			if name == "burst" {
				instead = "the NUMBER of the limit or more"
			}
			return fmt.Errorf("%s%s 0 is not in its range; leave it out for its default, %s", above, name, instead)
		}
	}
	return nil
}

// blank reports whether nothing is written: package yaml has no document then.
func blank(text []byte) bool {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

var place = regexp.MustCompile(`^go-yaml load error in \w+ (\(.*?\) )?at (?:L\d+\.C\d+-)?(?:L(\d+)\.C\d+|<[^>]*>): `)

// plain makes an error of package yaml one line that begins with the place.
func plain(err error) error {
	text := strings.Join(strings.Fields(err.Error()), " ")
	text = strings.TrimPrefix(text, "yaml: construct errors: ")
	text = strings.TrimPrefix(text, "<unknown position>: ")
	text = place.ReplaceAllString(text, "line $2: $1")
	text = strings.TrimPrefix(text, "line : ")
	text = strings.ReplaceAll(text, "into time.Duration",
		"into a duration with its unit, such as 250ms")
	return errors.New(text)
}

var line = regexp.MustCompile(`^line \d+: `)

// wanted is the error of the value of a single field, which stands on no line.
func wanted(err error, field reflect.Type) error {
	text := line.ReplaceAllString(err.Error(), "")
	if strings.HasPrefix(text, "cannot construct") {
		switch kind := field.Kind(); {
		case field == reflect.TypeFor[time.Duration]():
			text = "want a duration with its unit, such as 250ms"
		case kind == reflect.Int || kind == reflect.Int64:
			text = "want a whole number"
		case kind == reflect.Float64:
			text = "want a number"
		case kind == reflect.Bool:
			text = "want true or false"
		}
	}
	return errors.New(text)
}

// ReadFile reads the named file, unresolved. A scenario without a name gets that
// of the file.
func ReadFile(name string) (*Scenario, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("scenario: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxText+1)) // a device may have no end
	if err == nil && len(text) > maxText {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxText)
	}
	if err != nil {
		return nil, fmt.Errorf("scenario: %w", err)
	}
	s, err := Parse(text, Folder(filepath.Dir(name)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if base := filepath.Base(name); s.Name == "" {
		s.Name = strings.TrimSuffix(base, filepath.Ext(base))
	}
	return s, nil
}

const maxText = 1 << 20 // bytes
