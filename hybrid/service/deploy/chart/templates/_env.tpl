{{- define "ration.env" -}}
- {name: RATION_HTTP, value: ":8080"}
- {name: RATION_GRPC, value: ":8081"}
- {name: RATION_METRICS, value: ":8082"}
- {name: RATION_DATA, value: /data}
- {name: RATION_DRAIN, value: {{ printf "%ds" (int .Values.termination.drain) }}}
- {name: RATION_SHUTDOWN, value: {{ printf "%ds" (int .Values.termination.shutdown) }}}
- name: RATION_REDIS
  valueFrom:
    secretKeyRef:
      name: {{ required "redis.secret: the name of the Secret with the URL of Redis" .Values.redis.secret | quote }}
      key: {{ .Values.redis.key }}
{{- with .Values.database.secret }}
- name: RATION_DATABASE
  valueFrom:
    secretKeyRef: {name: {{ . }}, key: {{ $.Values.database.key }}}
{{- end }}
{{- with .Values.oidc.secret }}
- name: RATION_OIDC_CLIENT_SECRET
  valueFrom:
    secretKeyRef: {name: {{ . }}, key: {{ $.Values.oidc.key }}}
{{- end }}
{{- if eq .Values.rules.source "files" }}
- {name: RATION_RULES, value: "files:/etc/ration/rules"}
{{- else }}
- {name: RATION_RULES, value: {{ .Values.rules.source | quote }}}
{{- end }}
{{- if .Values.tls.secret }}
- {name: RATION_TLS_CERT, value: /etc/ration/tls/tls.crt}
- {name: RATION_TLS_KEY, value: /etc/ration/tls/tls.key}
- {name: RATION_TLS, value: "http,grpc"}
{{- end }}
{{- if not (hasKey .Values.settings "processes") }}
- {name: RATION_PROCESSES, value: {{ include "ration.processes" . | quote }}}
{{- end }}
{{- range $name, $value := .Values.settings }}
- {name: {{ printf "RATION_%s" ($name | upper | replace "-" "_") }}, value: {{ ternary $value (toJson $value) (kindIs "string" $value) | quote }}}
{{- end }}
{{- end -}}
