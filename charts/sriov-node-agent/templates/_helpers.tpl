{{- define "agent.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* Resource names may have 63 characters; a suffix such as -config has to fit in. */}}
{{- define "agent.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains (include "agent.name" .) .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "agent.name" .) | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "agent.selectorLabels" -}}
app.kubernetes.io/name: {{ include "agent.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "agent.labels" -}}
{{ include "agent.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: device-plugin
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "agent.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "agent.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "agent.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{- define "agent.configMap" -}}
{{- default (printf "%s-config" (include "agent.fullname" .)) .Values.config.existingConfigMap }}
{{- end }}

{{- /* A folder is read as: the key named like the node, or else config.json. */}}
{{- define "agent.configFile" -}}
{{- if .Values.config.key }}
{{- printf "/etc/pcidp/%s" .Values.config.key }}
{{- else }}
{{- "/etc/pcidp" }}
{{- end }}
{{- end }}

{{- /* "true" if something outside the node is to scrape. */}}
{{- define "agent.isScraped" -}}
{{- if or .Values.metrics.podMonitor.enabled .Values.metrics.serviceMonitor.enabled }}true{{ end }}
{{- end }}

{{- define "agent.httpAddress" -}}
{{- if .Values.http.address }}
{{- .Values.http.address }}
{{- else if include "agent.isScraped" . }}
{{- /* In brackets it may be of either family. */}}
{{- "[$(NODE_IP)]" }}
{{- else }}
{{- "127.0.0.1" }}
{{- end }}
{{- end }}

{{- /* The host that kubelet's probes ask; empty = the pod's address, which is the node's. */}}
{{- define "agent.probeHost" -}}
{{- $address := include "agent.httpAddress" . }}
{{- if or (hasPrefix "127." $address) (eq $address "localhost") }}
{{- $address }}
{{- else if eq $address "[::1]" }}
{{- "::1" }}
{{- end }}
{{- end }}

{{- define "agent.probe" -}}
httpGet:
  path: {{ .path }}
  port: http
  {{- with .host }}
  host: {{ . | quote }}
  {{- end }}
{{ toYaml .settings }}
{{- end }}

{{- /* One node selector term for each way to know a node; terms are alternatives. */}}
{{- define "agent.affinity" -}}
{{- if .Values.affinity }}
{{- toYaml .Values.affinity }}
{{- else if or .Values.nodeAffinity.nfd .Values.nodeAffinity.label }}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      {{- if .Values.nodeAffinity.nfd }}
      - matchExpressions:
          - key: feature.node.kubernetes.io/network-sriov.capable
            operator: In
            values: ["true"]
      {{- end }}
      {{- with .Values.nodeAffinity.label }}
      {{- $parts := splitn "=" 2 . }}
      - matchExpressions:
          - key: {{ $parts._0 }}
            {{- if contains "=" . }}
            operator: In
            values: [{{ $parts._1 | quote }}]
            {{- else }}
            operator: Exists
            {{- end }}
      {{- end }}
{{- end }}
{{- end }}

{{- /* What both monitors say of the port; takes the monitor's values. */}}
{{- define "agent.endpoint" -}}
port: http
path: /metrics
interval: {{ .interval }}
relabelings:
  - sourceLabels: [__meta_kubernetes_pod_node_name]
    targetLabel: node
  {{- with .relabelings }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
