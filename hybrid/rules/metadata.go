package rules

import (
	"math"
	"strconv"

	"go.yaml.in/yaml/v4"
)

// maxMetadata is how many values the metadata of a rule may have.
const maxMetadata = 1_000

// metadata reads what stands beside a limit for programs. It is nil if there is nothing.
func (t *treeReader) metadata(p place) map[string]any {
	if null(p) || !t.is(p, yaml.MappingNode, "a mapping") {
		return nil
	}
	left := maxMetadata
	m, _ := t.value(p, &left).(map[string]any)
	if left < 0 {
		t.fail(p, "it has more than %d values", maxMetadata)
	}
	if len(m) == 0 {
		return nil
	}
	return m
}

// value reads any value, as encoding/json would, while it may have so many more.
func (t *treeReader) value(p place, left *int) any {
	if *left--; *left < 0 {
		return nil
	}
	switch p.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i+1 < len(p.Content); i += 2 {
			if key := p.Content[i]; t.is(place{key, p.path}, yaml.ScalarNode, "a name") {
				m[key.Value] = t.value(p.at(key.Value, p.Content[i+1]), left)
			}
		}
		return m
	case yaml.SequenceNode:
		list := []any{}
		for i, n := range p.Content {
			list = append(list, t.value(place{n, p.path + "[" + strconv.Itoa(i) + "]"}, left))
		}
		return list
	}
	if !t.is(p, yaml.ScalarNode, "a value") {
		return nil
	}
	switch p.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		return t.flag(p)
	case "!!int", "!!float":
		return t.number(p)
	}
	return p.Value
}

// number reads a number that JSON has, too.
func (t *treeReader) number(p place) (n float64) {
	if err := p.Decode(&n); err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		t.fail(p, "%.80q is no number", p.Value)
	}
	return n
}
