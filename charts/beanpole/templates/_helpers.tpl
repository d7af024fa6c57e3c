{{- /* The name of everything: that of the release. */ -}}
{{- define "beanpole.name" -}}
{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- /* What tells the pods of this release from others; it never changes. */ -}}
{{- define "beanpole.selector" -}}
app.kubernetes.io/name: beanpole
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "beanpole.labels" -}}
{{ include "beanpole.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* The variables of `beanpole serve`: what this chart sets, and over it what `settings` says. */ -}}
{{- define "beanpole.settings" -}}
{{- $name := include "beanpole.name" . -}}
{{- $host := printf "%s.%s" $name .Release.Namespace -}}
{{- $set := dict "BEANPOLE_LOG_FORMAT" "json" "BEANPOLE_HTTP" "0.0.0.0:11380" "BEANPOLE_HTTP_HOST" (printf "%s %s %s.svc" $name $host $host) -}}
{{- if .Values.console.tokensSecret }}{{ $_ := set $set "BEANPOLE_HTTP_TOKEN_FILE" "/run/beanpole/tokens" }}{{ end -}}
{{- if .Values.cluster.url -}}
{{- $_ := set $set "BEANPOLE_CLUSTER" .Values.cluster.url -}}
{{- $_ := set $set "BEANPOLE_NODE" "$(POD_NAME)" -}}
{{- $_ := set $set "BEANPOLE_ADVERTISE" "$(POD_IP):11300" -}}
{{- else -}}
{{- $_ := set $set "BEANPOLE_DATA_DIR" "/data" -}}
{{- end -}}
{{- range $name, $value := .Values.settings }}{{ $_ := set $set $name $value }}{{ end -}}
{{- toYaml $set -}}
{{- end }}
