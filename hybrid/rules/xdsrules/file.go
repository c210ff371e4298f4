package xdsrules

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/seed13b07268/ration/hybrid/rules"
)

// mostFile bounds the File, in bytes.
const mostFile = 256 << 20

// keep writes resources into the File, if there are any. What goes wrong is logged: the rules are
// in force all the same.
func (s *Source) keep(resources []*anypb.Any) {
	if s.config.File == "" || len(resources) == 0 {
		return
	}
	if err := write(s.config.File, &discovery.DiscoveryResponse{Resources: resources}); err != nil {
		s.config.Log.Warn("a restart will not know these rules", "file", s.config.File, "error", err)
	}
}

// write replaces a file as a whole.
func write(name string, message proto.Message) error {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}

// restore takes the rules of the File. Where it has none that are valid, they are not known: it may
// be of another release, or damaged.
func (s *Source) restore() error {
	if s.config.File == "" {
		return nil
	}
	text, err := read(s.config.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("xdsrules: File: %w", err)
	}
	var saved discovery.DiscoveryResponse
	err = proto.Unmarshal(text, &saved)
	if err == nil && len(saved.GetResources()) == 0 {
		err = errors.New("it has no document")
	}
	var docs []rules.Document
	if err == nil {
		docs, err = documents(saved.GetResources())
	}
	if err != nil {
		s.config.Log.Warn("the rules of before the restart are not known: the file has no valid ones",
			"file", s.config.File, "error", err)
		return nil
	}
	s.docs, s.tag = docs, tagOf(docs)
	return nil
}

// read reads a file.
func read(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > mostFile {
		return nil, fmt.Errorf("%q is none, or has more than %d bytes", name, mostFile)
	}
	return os.ReadFile(name)
}
