package deploy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"debug/elf"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// root is the root of the tree, from here.
const root = "../../.."

// scratch is the folder of what is built.
var scratch string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "deploy"); err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(scratch)
	return m.Run()
}

// steps reads the Containerfile.
func steps() ([]*parser.Node, error) {
	file, err := os.Open("Containerfile")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	read, err := parser.Parse(file)
	if err != nil {
		return nil, err
	}
	if len(read.Warnings) > 0 {
		return nil, fmt.Errorf("Containerfile: %+v", read.Warnings)
	}
	return read.AST.Children, nil
}

// build runs the steps of the Containerfile for an architecture of Linux, and returns the folder
// that stands for its /out.
func build(arch string) (string, error) {
	children, err := steps()
	if err != nil {
		return "", err
	}
	out := filepath.Join(scratch, arch)
	for _, step := range children {
		if step.Value != "RUN" && step.Value != "run" {
			continue
		}
		command := strings.ReplaceAll(step.Next.Value, "/out", out)
		c := exec.Command("sh", "-ec", command)
		c.Dir = root
		c.Env = append(os.Environ(), "TARGETOS=linux", "TARGETARCH="+arch)
		if text, err := c.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w\n%s", command, err, text)
		}
	}
	return out, nil
}

var built = map[string]func() (string, error){
	"amd64": sync.OnceValues(func() (string, error) { return build("amd64") }),
	"arm64": sync.OnceValues(func() (string, error) { return build("arm64") }),
}

// program is the service of the image for this machine.
func program(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" || built[runtime.GOARCH] == nil {
		t.Skipf("the image has no program for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	out, err := built[runtime.GOARCH]()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(out, "ration")
}

// TestContainerfile: its steps build a static program for both architectures, which runs as a user
// that is not root, and all variables are options.
func TestContainerfile(t *testing.T) {
	children, err := steps()
	if err != nil {
		t.Fatal(err)
	}
	last := map[string]*parser.Node{}
	for _, step := range children {
		last[strings.ToUpper(step.Value)] = step.Next
	}
	if last["FROM"] == nil || last["FROM"].Value != "scratch" {
		t.Errorf("the image begins with %+v, want scratch", last["FROM"])
	}
	if user := last["USER"]; user == nil || user.Value != "65532:65532" {
		t.Errorf("user %+v", user)
	}
	if entry := last["ENTRYPOINT"]; entry == nil || entry.Value != "/ration" {
		t.Errorf("entry point %+v", entry)
	}
	env := map[string]string{}
	for n := last["ENV"]; n != nil; n = n.Next.Next.Next { // name, value, =
		env[n.Value] = n.Next.Value
	}
	if len(env) < 4 {
		t.Errorf("%d variables: %v", len(env), env)
	}
	configured(t, env)
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	for arch, machine := range machines {
		out, err := built[arch]()
		if err != nil {
			t.Errorf("%s: %v", arch, err)
			continue
		}
		static(t, filepath.Join(out, "ration"), machine)
	}
}

// static fails unless a program is for a machine and needs no library.
func static(t *testing.T, name string, machine elf.Machine) {
	t.Helper()
	f, err := elf.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Machine != machine {
		t.Errorf("%s is for %v, want %v", name, f.Machine, machine)
	}
	libraries, err := f.ImportedLibraries()
	if err != nil || len(libraries) > 0 {
		t.Errorf("%s needs %v: %v", name, libraries, err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("%s has a segment %v", name, p.Type)
		}
	}
}

var flagLine = regexp.MustCompile(`(?m)^\s+-([a-z-]+) `)

// options are the flags that the service has.
func options(t *testing.T) []string {
	t.Helper()
	text, err := exec.Command(program(t), "-h").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var names []string
	for _, found := range flagLine.FindAllStringSubmatch(string(text), -1) {
		names = append(names, found[1])
	}
	if len(names) < 30 {
		t.Fatalf("%d options in\n%s", len(names), text)
	}
	return names
}

// variable is how an option is called in the environment.
func variable(option string) string {
	return "RATION_" + strings.ToUpper(strings.ReplaceAll(option, "-", "_"))
}

// configured fails unless the service knows each variable, and takes all values together. It does
// not listen, and instead of Redis, the database and files of a manifest it has a folder.
func configured(t *testing.T, env map[string]string) {
	t.Helper()
	known := options(t)
	for name := range env {
		if !slices.ContainsFunc(known, func(o string) bool { return variable(o) == name }) {
			t.Errorf("%s is no variable of the service", name)
		}
	}
	folder := t.TempDir()
	args := []string{"-reset-admin=true", "-data=" + folder, "-database=sqlite"}
	if env["RATION_TLS_CERT"] != "" {
		cert, key := certificate(t, folder)
		args = append(args, "-tls-cert="+cert, "-tls-key="+key)
	}
	c := exec.Command(program(t), args...)
	c.Dir = folder
	for name, value := range env {
		c.Env = append(c.Env, name+"="+value)
	}
	text, err := c.CombinedOutput()
	if err != nil || !bytes.Contains(text, []byte("The password of admin is now")) {
		t.Errorf("%v: %v\n%s", env, err, text)
	}
	if bytes.Contains(text, []byte("WARN")) {
		t.Errorf("%v:\n%s", env, text)
	}
}

var servingLine = regexp.MustCompile(`"msg":"serving".*"metrics":"(http[^"]*)"`)

// serving starts the service in memory, and returns where its metrics are.
func serving(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := exec.CommandContext(ctx, program(t), "-http=127.0.0.1:0", "-grpc=127.0.0.1:0",
		"-metrics=127.0.0.1:0", "-data="+t.TempDir(), "-log-format=json")
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	out, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	t.Cleanup(func() {
		cancel()
		for lines.Scan() { // else it may wait for somebody who reads
		}
		_ = c.Wait()
	})
	for lines.Scan() {
		if found := servingLine.FindStringSubmatch(lines.Text()); found != nil {
			return found[1]
		}
	}
	t.Fatal("the service has ended")
	return ""
}

// certificate writes one for localhost that signs itself, and its key.
func certificate(t *testing.T, folder string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	for name, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: signed}, key: {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}
