package rules

import (
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v4"
)

// SetRule returns the text of a document with a rule at a path, in place of the one there or as
// a new one. The path is as ParsePath reads it. Descriptors on the way that are missing are made
// at the end of their lists. The rule is YAML, the fields of a descriptor but key, value and
// descriptors:
//
//	rate_limit: {unit: minute, requests_per_unit: 5}
//	shadow_mode: true
//
// A field of the descriptor that is not among them goes. What stands below the descriptor stays.
// So do comments, and the order of all else; spaces and blank lines may change. The text must be
// valid rules, and what comes of it is. A new domain begins with the text "domain: NAME".
func SetRule(text []byte, path string, rule []byte) ([]byte, error) {
	edited, err := setRule(text, path, rule)
	if err != nil {
		return nil, fmt.Errorf("rules: set %.200s: %w", path, err)
	}
	return edited, nil
}

// SetLimit is SetRule for a limit alone: YAML, the fields of a rate_limit but name and replaces.
//
//	{unit: minute, requests_per_unit: 5}
//
// The other fields of the descriptor stay, and name and replaces of the limit before do.
func SetLimit(text []byte, path string, limit []byte) ([]byte, error) {
	edited, err := setLimit(text, path, limit)
	if err != nil {
		return nil, fmt.Errorf("rules: set the limit of %.200s: %w", path, err)
	}
	return edited, nil
}

// DeleteRule returns the text of a document without the rule at a path. A descriptor that has
// others below it stays, without a limit, and keeps its transform and share_threshold. One that
// has none goes, and so do those above it that have neither a limit nor others below them then.
// Comments stay as in SetRule, but for those of what goes.
func DeleteRule(text []byte, path string) ([]byte, error) {
	edited, err := deleteRule(text, path)
	if err != nil {
		return nil, fmt.Errorf("rules: delete %.200s: %w", path, err)
	}
	return edited, nil
}

func setRule(text []byte, path string, rule []byte) ([]byte, error) {
	doc, entries, err := editable(text, path)
	if err != nil {
		return nil, err
	}
	fields, err := fieldsOf(rule)
	if err != nil {
		return nil, err
	}
	replace(reach(doc, entries), fields, "key", "value", "descriptors")
	return written(doc)
}

func setLimit(text []byte, path string, limit []byte) ([]byte, error) {
	doc, entries, err := editable(text, path)
	if err != nil {
		return nil, err
	}
	fields, err := mappingOf(limit)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"name", "replaces"} {
		if field(fields, name) != nil {
			return nil, fmt.Errorf("the limit has a field %s, which stays as it is", name)
		}
	}
	at := reach(doc, entries)
	if was := field(at, "rate_limit"); was != nil && was.Kind == yaml.MappingNode {
		replace(was, fields, "name", "replaces")
		return written(doc)
	}
	var others []string
	for i := 0; i < len(at.Content); i += 2 {
		if name := at.Content[i].Value; name != "rate_limit" { // null
			others = append(others, name)
		}
	}
	rule := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{scalar("rate_limit"), fields}}
	replace(at, rule, others...)
	return written(doc)
}

// reach returns the descriptor of entries. It is made if need be, and so are those on the way.
func reach(doc *yaml.Node, entries []Entry) *yaml.Node {
	at := doc.Content[0]
	for _, e := range entries {
		list := field(at, "descriptors")
		if list == nil {
			list = &yaml.Node{Kind: yaml.SequenceNode}
			at.Content = append(at.Content, scalar("descriptors"), list)
		} else if list.Kind != yaml.SequenceNode { // null
			*list = yaml.Node{Kind: yaml.SequenceNode}
		}
		i := find(list, e)
		if i < 0 {
			i = len(list.Content)
			list.Content = append(list.Content, descriptor(e))
		}
		at = list.Content[i]
	}
	return at
}

func deleteRule(text []byte, path string) ([]byte, error) {
	doc, entries, err := editable(text, path)
	if err != nil {
		return nil, err
	}
	way := []*yaml.Node{doc.Content[0]} // the top, and the descriptor of each entry
	var places []int                    // of those in their lists
	for _, e := range entries {
		list := field(way[len(way)-1], "descriptors")
		i := -1
		if list != nil {
			i = find(list, e)
		}
		if i < 0 {
			return nil, errors.New("there is no such descriptor")
		}
		way, places = append(way, list.Content[i]), append(places, i)
	}
	last := way[len(way)-1]
	if field(last, "rate_limit") == nil {
		return nil, errors.New("the descriptor has no limit")
	}
	keep := []string{"key", "value", "descriptors"}
	if field(last, "descriptors") != nil { // the names of buckets below have its values
		keep = append(keep, "transform", "share_threshold")
	}
	replace(last, &yaml.Node{Kind: yaml.MappingNode}, keep...)
	for n := len(places) - 1; n >= 0; n-- {
		d := way[n+1]
		if field(d, "rate_limit") != nil || field(d, "descriptors") != nil {
			break
		}
		list := field(way[n], "descriptors")
		list.Content = slices.Delete(list.Content, places[n], places[n]+1)
		if len(list.Content) == 0 {
			remove(way[n], "descriptors")
		}
	}
	return written(doc)
}

// editable returns the nodes of a text that is valid, and the entries of a path.
func editable(text []byte, path string) (*yaml.Node, []Entry, error) {
	if _, err := Parse(Document{Name: "the text", Text: text}); err != nil {
		return nil, nil, err
	}
	entries, err := ParsePath(path)
	if err != nil {
		return nil, nil, err
	}
	doc := &yaml.Node{}
	err = yaml.Load(text, doc)
	return doc, entries, err
}

// mappingOf returns the mapping of a rule or a limit.
func mappingOf(rule []byte) (*yaml.Node, error) {
	if len(rule) > MaxText {
		return nil, fmt.Errorf("the rule has %d bytes, more than %d", len(rule), MaxText)
	}
	var doc yaml.Node
	if err := yaml.Load(rule, &doc); err != nil {
		return nil, fmt.Errorf("the rule: %s", reason(err))
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("the rule is not a mapping")
	}
	if n := doubled(doc.Content[0]); n != nil {
		return nil, fmt.Errorf("the rule has a field %.80q twice, in line %d", n.Value, n.Line)
	}
	return doc.Content[0], nil
}

// fieldsOf returns the mapping of a rule.
func fieldsOf(rule []byte) (*yaml.Node, error) {
	fields, err := mappingOf(rule)
	if err != nil {
		return nil, err
	}
	if field(fields, "rate_limit") == nil {
		return nil, errors.New("the rule has no rate_limit")
	}
	for _, name := range []string{"key", "value", "descriptors"} {
		if field(fields, name) != nil {
			return nil, fmt.Errorf("the rule has a field %s, which is for the path to say", name)
		}
	}
	return fields, nil
}

// doubled returns the name of a field that a mapping in n has twice, or nil.
func doubled(n *yaml.Node) *yaml.Node {
	for i, child := range n.Content {
		if d := doubled(child); d != nil {
			return d
		}
		if n.Kind == yaml.MappingNode && i%2 == 0 && field(n, child.Value) != n.Content[i+1] {
			return child
		}
	}
	return nil
}

// written is the text of a document, which Parse accepts.
func written(doc *yaml.Node) ([]byte, error) {
	top := doc.Content[0]
	list := field(top, "descriptors")
	compact := list != nil && list.Column > 0 && list.Column == top.Column // as it was read
	text, err := yaml.Dump(doc, yaml.WithIndent(2), yaml.WithLineWidth(-1),
		yaml.WithCompactSeqIndent(compact))
	if err != nil {
		return nil, err
	}
	if _, err := Parse(Document{Name: "the edited text", Text: text}); err != nil {
		return nil, err
	}
	return text, nil
}

func scalar(text string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(text)
	return n
}

// descriptor is a new one of an entry.
func descriptor(e Entry) *yaml.Node {
	d := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{scalar("key"), scalar(e.Key)}}
	if e.Value != "" {
		d.Content = append(d.Content, scalar("value"), scalar(e.Value))
	}
	return d
}

// find returns the index of an entry's descriptor in a list, or -1.
func find(list *yaml.Node, e Entry) int {
	return slices.IndexFunc(list.Content, func(d *yaml.Node) bool {
		value := ""
		if v := field(d, "value"); v != nil && v.ShortTag() != "!!null" {
			value = v.Value
		}
		return field(d, "key").Value == e.Key && value == e.Value
	})
}

// field returns the value of a mapping's field, or nil.
func field(mapping *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// remove takes a field out of a mapping.
func remove(mapping *yaml.Node, name string) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			mapping.Content = slices.Delete(mapping.Content, i, i+2)
			return
		}
	}
}

// replace gives a mapping other fields, but for those to keep. A field that was there stays in
// its place, with its comments. A new one stands before a list of descriptors.
func replace(mapping, fields *yaml.Node, keep ...string) {
	var content []*yaml.Node
	end := -1 // of what is not descriptors
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		name, value := mapping.Content[i], mapping.Content[i+1]
		if !slices.Contains(keep, name.Value) {
			next := field(fields, name.Value)
			if next == nil {
				continue
			}
			value = merged(value, next)
		}
		if name.Value == "descriptors" {
			end = len(content)
		}
		content = append(content, name, value)
	}
	if end < 0 {
		end = len(content)
	}
	for i := 0; i+1 < len(fields.Content); i += 2 {
		if name := fields.Content[i]; field(mapping, name.Value) == nil {
			content = slices.Insert(content, end, name, fields.Content[i+1])
			end += 2
		}
	}
	mapping.Content = content
}

// merged is a new value of a field with the comments of the old one.
func merged(old, next *yaml.Node) *yaml.Node {
	if old.Kind == yaml.MappingNode && next.Kind == yaml.MappingNode {
		replace(old, next)
		return old
	}
	if next.HeadComment+next.LineComment+next.FootComment == "" {
		next.HeadComment, next.LineComment = old.HeadComment, old.LineComment
		next.FootComment = old.FootComment
	}
	return next
}
