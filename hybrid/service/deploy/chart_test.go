package deploy

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// values are what users may say, by a name.
var values = map[string]string{
	"least": `redis: {secret: redis}`,
	"all": `
redis: {secret: redis}
database: {secret: mysql}
rules: {source: database}
tls: {secret: tls}
hpa: {enabled: true, maxReplicas: 20}
networkPolicy:
  enabled: true
  grpc: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: gateways}}}]
serviceMonitor: {enabled: true, labels: {release: prometheus}}
oidc: {secret: issuer}
settings:
  max-keys: 1000000
  outage: deny
  headers: true
  rlqs: 3s
  log-level: warn
  public-url: https://ration.example.com
  oidc-issuer: https://issuer.example.com
  oidc-client-id: ration
  oidc-rights: {platform: {"*": admin}}
imagePullSecrets: [{name: pull}]
podAnnotations: {a: b}
nodeSelector: {kubernetes.io/os: linux}
tolerations: [{key: limits, operator: Exists}]
affinity: {nodeAffinity: {}}
`,
	"files": `
redis: {secret: redis}
replicas: 1
podDisruptionBudget: {enabled: false}
rules:
  source: files
  files:
    shop.yaml: |
      domain: shop
      descriptors:
        - key: user
          rate_limit: {unit: minute, requests_per_unit: 600}
`,
}

// read reads values.
func read(t *testing.T, text string) map[string]any {
	t.Helper()
	v, err := chartutil.ReadValues([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// render is what helm template does: it returns the manifests, by their files.
func render(t *testing.T, text string) (map[string]string, error) {
	t.Helper()
	c, err := loader.Load("chart")
	if err != nil {
		return nil, err
	}
	of, err := chartutil.ToRenderValues(c, read(t, text), chartutil.ReleaseOptions{
		Name: "shop", Namespace: "limits", Revision: 1, IsInstall: true,
	}, nil)
	if err != nil {
		return nil, err
	}
	return engine.Engine{Strict: true}.Render(c, of)
}

// TestLint: helm lint has nothing to say, but that there is no icon.
func TestLint(t *testing.T) {
	for name, text := range values {
		for _, m := range lint.All("chart", read(t, text), "limits", true).Messages {
			if m.Severity > support.InfoSev || !strings.Contains(m.Err.Error(), "icon") {
				t.Errorf("%s: %v", name, m)
			}
		}
	}
}

// objects are those of a release.
type objects struct {
	deployment apps.Deployment
	services   map[string]*core.Service
	rules      *core.ConfigMap
	budget     *policy.PodDisruptionBudget
	scaler     *autoscaling.HorizontalPodAutoscaler
	network    *networking.NetworkPolicy
	monitor    *monitoring.ServiceMonitor
}

// decode reads each manifest into the type of its kind: an unknown field, or one of another type,
// is an error.
func decode(t *testing.T, files map[string]string) objects {
	t.Helper()
	o := objects{services: map[string]*core.Service{}}
	for name, text := range files {
		if strings.HasSuffix(name, ".txt") {
			continue
		}
		for _, manifest := range strings.Split(text, "\n---\n") {
			if strings.TrimSpace(manifest) == "" {
				continue
			}
			if err := o.add([]byte(manifest)); err != nil {
				t.Errorf("%s: %v\n%s", name, err, manifest)
			}
		}
	}
	return o
}

func (o *objects) add(manifest []byte) error {
	var kind struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal(manifest, &kind); err != nil {
		return err
	}
	into := func(to any) error { return yaml.UnmarshalStrict(manifest, to) }
	switch kind.APIVersion + " " + kind.Kind {
	case "apps/v1 Deployment":
		return into(&o.deployment)
	case "v1 Service":
		s := &core.Service{}
		err := into(s)
		o.services[s.Name] = s
		return err
	case "v1 ConfigMap":
		return into(&o.rules)
	case "policy/v1 PodDisruptionBudget":
		return into(&o.budget)
	case "autoscaling/v2 HorizontalPodAutoscaler":
		return into(&o.scaler)
	case "networking.k8s.io/v1 NetworkPolicy":
		return into(&o.network)
	case "monitoring.coreos.com/v1 ServiceMonitor":
		return into(&o.monitor)
	}
	return fmt.Errorf("kind %+v is not expected", kind)
}

// released renders and decodes.
func released(t *testing.T, text string) objects {
	t.Helper()
	files, err := render(t, text)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, files)
}

// environment is that of the container, with something in place of what a Secret has.
func environment(t *testing.T, o objects) map[string]string {
	t.Helper()
	env := map[string]string{}
	for _, e := range o.deployment.Spec.Template.Spec.Containers[0].Env {
		if _, twice := env[e.Name]; twice {
			t.Errorf("%s is there twice", e.Name)
		}
		env[e.Name] = e.Value
	}
	secrets := map[string]string{
		"RATION_REDIS":    "redis://:password@redis:6379/0",
		"RATION_DATABASE": "mysql:user:password@tcp(mysql:3306)/ration",

		"RATION_OIDC_CLIENT_SECRET": "a secret",
	}
	for name, value := range secrets {
		if written, there := env[name]; there && written != "" {
			t.Errorf("%s is %q, and not by reference", name, written)
		} else if there {
			env[name] = value
		}
	}
	return env
}

// TestChart: all that is rendered decodes strictly, belongs together, and configures the service.
func TestChart(t *testing.T) {
	for name, text := range values {
		t.Run(name, func(t *testing.T) {
			o := released(t, text)
			belongs(t, o)
			secure(t, o.deployment.Spec.Template.Spec)
			env := environment(t, o)
			ends(t, env, *o.deployment.Spec.Template.Spec.TerminationGracePeriodSeconds)
			configured(t, env)
		})
	}
	o := released(t, values["least"])
	if o.budget == nil || o.scaler != nil || o.network != nil || o.monitor != nil || o.rules != nil {
		t.Errorf("the least values have %+v", o)
	}
	if env := environment(t, o); *o.deployment.Spec.Replicas != 3 || env["RATION_PROCESSES"] != "4" {
		t.Errorf("%d replicas, processes %s", *o.deployment.Spec.Replicas, env["RATION_PROCESSES"])
	}
	o = released(t, values["all"])
	if o.budget == nil || o.scaler == nil || o.network == nil || o.monitor == nil {
		t.Errorf("all values have %+v", o)
	}
	env := environment(t, o)
	if o.deployment.Spec.Replicas != nil || env["RATION_PROCESSES"] != "21" {
		t.Errorf("replicas beside a scaler, or processes %s", env["RATION_PROCESSES"])
	}
	if env["RATION_MAX_KEYS"] != "1000000" || env["RATION_TLS"] != "http,grpc" {
		t.Errorf("%v", env)
	}
	o = released(t, values["files"])
	if o.rules == nil || o.budget != nil || !strings.Contains(o.rules.Data["shop.yaml"], "shop") {
		t.Errorf("files: %+v", o.rules)
	}
}

// belongs fails unless selectors find the pods, and names of ports and volumes exist.
func belongs(t *testing.T, o objects) {
	t.Helper()
	pod := o.deployment.Spec.Template
	c := pod.Spec.Containers[0]
	ports, volumes := map[string]int32{}, map[string]bool{}
	for _, p := range c.Ports {
		ports[p.Name] = p.ContainerPort
	}
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = true
	}
	selectors := map[string]map[string]string{"deployment": o.deployment.Spec.Selector.MatchLabels}
	served := map[string]bool{}
	for name, s := range o.services {
		selectors[name] = s.Spec.Selector
		for _, p := range s.Spec.Ports {
			served[p.Name] = true
			if ports[p.TargetPort.StrVal] != p.Port {
				t.Errorf("%s: port %s of %v", name, p.TargetPort.StrVal, ports)
			}
		}
	}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("there is no volume %s", m.Name)
		}
	}
	for _, p := range []*core.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		if p == nil || p.HTTPGet == nil || p.HTTPGet.Port.StrVal != "metrics" {
			t.Errorf("probe %+v", p)
		}
	}
	if o.budget != nil {
		selectors["budget"] = o.budget.Spec.Selector.MatchLabels
	}
	if o.scaler != nil && o.scaler.Spec.ScaleTargetRef.Name != o.deployment.Name {
		t.Errorf("the scaler is of %s", o.scaler.Spec.ScaleTargetRef.Name)
	}
	if o.network != nil {
		selectors["network"] = o.network.Spec.PodSelector.MatchLabels
		for _, rule := range o.network.Spec.Ingress {
			if ports[rule.Ports[0].Port.StrVal] == 0 || len(rule.From) == 0 {
				t.Errorf("ingress %+v", rule)
			}
		}
	}
	if o.monitor != nil {
		selectors["monitor"] = o.monitor.Spec.Selector.MatchLabels
		if !served[o.monitor.Spec.Endpoints[0].Port] {
			t.Errorf("the monitor's port %s is of no service", o.monitor.Spec.Endpoints[0].Port)
		}
	}
	for name, selector := range selectors {
		for label, value := range selector {
			if pod.Labels[label] != value || len(selector) < 2 {
				t.Errorf("%s selects %v, pods have %v", name, selector, pod.Labels)
			}
		}
	}
}

// secure fails unless a pod has as little as it needs.
func secure(t *testing.T, s core.PodSpec) {
	t.Helper()
	c := s.Containers[0].SecurityContext
	if !*s.SecurityContext.RunAsNonRoot || *s.SecurityContext.RunAsUser != 65532 ||
		s.SecurityContext.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault ||
		*s.AutomountServiceAccountToken || *c.AllowPrivilegeEscalation || !*c.ReadOnlyRootFilesystem ||
		!slices.Equal(c.Capabilities.Drop, []core.Capability{"ALL"}) {
		t.Errorf("security %+v, of the container %+v", s.SecurityContext, c)
	}
	if r := s.Containers[0].Resources; r.Requests.Cpu().IsZero() || r.Limits.Memory().IsZero() {
		t.Errorf("resources %+v", r)
	}
}

// TestRefusedValues: what cannot work is refused before it is installed, and says why.
func TestRefusedValues(t *testing.T) {
	for text, want := range map[string]string{
		"{}": "redis.secret",
		"redis: {secret: r}\nrules: {source: database}":       "database.secret",
		"redis: {secret: r}\nrules: {source: files}":          "rules.files",
		"redis: {secret: r}\nrules: {source: elsewhere}":      "rules",
		"redis: {secret: r, url: redis://:secret@host:6379}":  "url",
		"redis: {secret: r}\nsettings: {max-kees: 1}":         "max-kees",
		"redis: {secret: r}\nsettings: {redis: redis://host}": "redis",
		"redis: {secret: r}\nreplica: 2":                      "replica",
		"redis: {secret: r}\nreplicas: 0":                     "replicas",
	} {
		if _, err := render(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// chartSets are the options that are no settings: the chart sets them, or they are of no use there.
var chartSets = []string{
	"config", "names", "http", "grpc", "metrics", "data", "redis", "rules", "database", "tls-cert",
	"tls-key", "tls", "oidc-client-secret", "reset-admin", "drain", "shutdown",
}

// TestSettings: the settings are the other options of the service, each.
func TestSettings(t *testing.T) {
	text, err := os.ReadFile("chart/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties struct {
			Settings struct{ Properties map[string]any }
		}
	}
	if err := yaml.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	got := slices.Concat(slices.Collect(maps.Keys(schema.Properties.Settings.Properties)), chartSets)
	want := options(t)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("settings and what the chart sets:\n%v, options\n%v", got, want)
	}
}
