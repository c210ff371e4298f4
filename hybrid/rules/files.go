package rules

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// pollFiles is how often files are read besides, so that a lost event costs so much.
	pollFiles = 500 * time.Millisecond

	// settle is how long no event comes before files are read: an editor writes several times.
	settle = 20 * time.Millisecond

	// mostFileBytes bounds all files together.
	mostFileBytes = 64 << 20
)

// A FileSource is a Source of files, one domain in each.
type FileSource struct {
	paths []string
	poll  time.Duration
	watch bool
}

// Files returns the source of the rules in files and folders. Of a folder it reads the files
// that end with .yaml or .yml and do not begin with a dot, and no folders in it. A path that is a
// folder is looked into again at each Load.
//
// A change is seen at once where the system tells of it (inotify and the like), and in any case
// within half a second. So it is for a folder that Kubernetes mounts, for a link that is
// replaced, and for a file that an editor replaces. A file that is half written is likely to be
// a mistake, and then the rules before stay until it is whole. To be safe write another file and
// rename it.
//
// A path that is not there, that cannot be read, or a folder without such files is an error.
func Files(paths ...string) *FileSource {
	return &FileSource{paths: paths, poll: pollFiles, watch: true}
}

// Load implements Source. It returns when it has read the same twice: a folder may be replaced
// meanwhile. The tag is a hash of names and texts.
func (f *FileSource) Load(ctx context.Context) ([]Document, string, error) {
	const attempts = 5
	before := ""
	for range attempts {
		docs, err := f.read(ctx)
		if err != nil {
			return nil, "", err
		}
		tag := tagOf(docs)
		if tag == before {
			return docs, tag, nil
		}
		before = tag
	}
	return nil, "", fmt.Errorf("rules: files %q change all the time", f.paths)
}

// Wait implements Source.
func (f *FileSource) Wait(ctx context.Context, tag string) error {
	var events chan fsnotify.Event
	var failures chan error
	w, err := fsnotify.NewWatcher()
	if err == nil { // else there are polls
		defer w.Close()
		events, failures = w.Events, w.Errors
	}
	if !f.watch {
		events = nil
	}
	poll := time.NewTicker(f.poll)
	defer poll.Stop()
	for {
		if events != nil {
			f.watchFolders(w)
		}
		docs, err := f.read(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil || tagOf(docs) != tag:
			return nil // Load tells what is wrong
		}
		select {
		case <-events:
			settled(ctx, events)
		case <-failures: // an event may be lost
		case <-poll.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// settled returns when no event has come for a moment, or after some.
func settled(ctx context.Context, events <-chan fsnotify.Event) {
	const longest = 5 * settle
	end := time.NewTimer(longest)
	defer end.Stop()
	quiet := time.NewTimer(settle)
	defer quiet.Stop()
	for {
		select {
		case <-events:
			quiet.Reset(settle)
		case <-quiet.C:
			return
		case <-end.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// watchFolders watches the folders in which something may happen. One that is not there is
// tried again at the next poll; one that was watched already stays so.
func (f *FileSource) watchFolders(w *fsnotify.Watcher) {
	for _, path := range f.paths {
		_ = w.Add(filepath.Dir(path))
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			_ = w.Add(path)
		}
	}
}

// read reads all files.
func (f *FileSource) read(ctx context.Context) (docs []Document, err error) {
	names, err := f.names()
	if err != nil {
		return nil, err
	}
	if len(names) > MaxDomains {
		return nil, fmt.Errorf("rules: %d files in %q are more than %d", len(names), f.paths, MaxDomains)
	}
	total := 0
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		text, err := readFile(name)
		if err != nil {
			return nil, err
		}
		if total += len(text); total > mostFileBytes {
			return nil, fmt.Errorf("rules: files in %q have more than %d bytes", f.paths, mostFileBytes)
		}
		docs = append(docs, Document{Name: name, Text: text})
	}
	return docs, nil
}

// names lists the files.
func (f *FileSource) names() (names []string, err error) {
	if len(f.paths) == 0 {
		return nil, errors.New("rules: no file or folder is named")
	}
	for _, path := range f.paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("rules: %w", err)
		}
		if !info.IsDir() {
			names = append(names, path)
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, fmt.Errorf("rules: %w", err)
		}
		before := len(names)
		for _, e := range entries {
			if name := filepath.Join(path, e.Name()); isRules(name) {
				names = append(names, name)
			}
		}
		if len(names) == before {
			return nil, fmt.Errorf("rules: folder %q has no .yaml files", path)
		}
	}
	return names, nil
}

// isRules reports whether something in a folder is a file of rules. Kubernetes has each file in
// a folder whose name begins with a dot, and a link to it beside.
func isRules(path string) bool {
	name, extension := filepath.Base(path), filepath.Ext(path)
	if strings.HasPrefix(name, ".") || extension != ".yaml" && extension != ".yml" {
		return false
	}
	info, err := os.Stat(path)
	return err != nil || !info.IsDir() // what cannot be read is an error later
}

// readFile reads a file, one byte more than may be at most.
func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	if !info.Mode().IsRegular() { // to open a pipe could hang
		return nil, fmt.Errorf("rules: %q is no file: %v", name, info.Mode())
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, MaxText+1))
	if err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	return text, nil
}

// tagOf is a hash of documents.
func tagOf(docs []Document) string {
	h := sha256.New()
	for _, d := range docs {
		for _, part := range [][]byte{[]byte(d.Name), d.Text} {
			var length [8]byte
			binary.BigEndian.PutUint64(length[:], uint64(len(part)))
			h.Write(length[:])
			h.Write(part)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
