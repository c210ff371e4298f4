{{- define "ration.name" -}}
{{- if contains "ration" .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-ration" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "ration.selector" -}}
app.kubernetes.io/name: ration
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "ration.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "ration.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* How many services may run at once: one more than there are while they are replaced. */}}
{{- define "ration.processes" -}}
{{- add1 (ternary .Values.hpa.maxReplicas .Values.replicas .Values.hpa.enabled) -}}
{{- end -}}

{{/* What the schema cannot say. */}}
{{- define "ration.check" -}}
{{- if and (eq .Values.rules.source "database") (not .Values.database.secret) -}}
{{- fail "rules.source database needs database.secret: else each pod has rules of its own" -}}
{{- end -}}
{{- if and (eq .Values.rules.source "files") (not .Values.rules.files) -}}
{{- fail "rules.source files needs rules.files" -}}
{{- end -}}
{{- end -}}
