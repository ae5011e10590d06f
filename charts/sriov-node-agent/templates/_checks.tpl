{{- /* Contradictions that the schema cannot see. Each says what to change. */}}
{{- define "agent.checks" -}}
{{- $config := .Values.config }}
{{- if and $config.text $config.resourceList }}
{{- fail "\n\nconfig.text and config.resourceList are both set: keep one of them." }}
{{- end }}
{{- if and $config.existingConfigMap (or $config.text $config.resourceList $config.nodes) }}
{{- fail (printf "\n\nconfig.existingConfigMap %q is used as it is: remove config.resourceList, config.text and config.nodes, or move them into it." $config.existingConfigMap) }}
{{- end }}
{{- if and $config.key (not $config.existingConfigMap) }}
{{- fail (printf "\n\nconfig.key %q chooses a key of config.existingConfigMap, which is not set." $config.key) }}
{{- end }}
{{- if and $config.text (not (hasKey (fromJson $config.text) "resourceList")) }}
{{- fail (printf "\n\nconfig.text holds no \"resourceList\", or is no JSON: %s" (default "no such key" (get (fromJson $config.text) "Error"))) }}
{{- end }}
{{- include "agent.checkPools" (dict "path" "config.resourceList" "pools" $config.resourceList "prefix" .Values.resourcePrefix) }}
{{- range $node, $pools := $config.nodes }}
{{- include "agent.checkPools" (dict "path" (printf "config.nodes.%s" $node) "pools" $pools "prefix" $.Values.resourcePrefix) }}
{{- end }}
{{- if regexMatch "(^|\\.)kubernetes\\.io$" .Values.resourcePrefix }}
{{- fail (printf "\n\nresourcePrefix %q is reserved by Kubernetes: use your own DNS name, such as intel.com." .Values.resourcePrefix) }}
{{- end }}
{{- if and .Values.affinity (or .Values.nodeAffinity.nfd .Values.nodeAffinity.label) }}
{{- fail "\n\naffinity replaces nodeAffinity: set one of them." }}
{{- end }}
{{- if and (include "agent.isScraped" .) (not .Values.http.enabled) }}
{{- fail "\n\nmetrics.podMonitor and metrics.serviceMonitor scrape the HTTP port: set http.enabled=true." }}
{{- end }}
{{- if and (include "agent.isScraped" .) (include "agent.probeHost" .) }}
{{- fail (printf "\n\nhttp.address %q can be reached from the node only, so metrics.podMonitor and metrics.serviceMonitor would scrape nothing: leave it empty, or set the node's address." .Values.http.address) }}
{{- end }}
{{- if and .Values.metrics.podMonitor.enabled .Values.metrics.serviceMonitor.enabled }}
{{- fail "\n\nmetrics.podMonitor and metrics.serviceMonitor are both enabled: each sample would be scraped twice. Enable one." }}
{{- end }}
{{- if and .Values.security.privileged .Values.security.capabilities }}
{{- fail "\n\nsecurity.privileged has every capability already: leave security.capabilities empty." }}
{{- end }}
{{- end }}

{{- define "agent.checkPools" -}}
{{- $seen := dict }}
{{- range $index, $pool := .pools }}
{{- $resource := printf "%s/%s" (default $.prefix $pool.resourcePrefix) $pool.resourceName }}
{{- if hasKey $seen $resource }}
{{- fail (printf "\n\n%s[%d] defines %s, which [%d] defines too: the agent would refuse both. Give them different names, or put both selectors into one pool as a list." $.path $index $resource (int (get $seen $resource))) }}
{{- end }}
{{- $_ := set $seen $resource $index }}
{{- end }}
{{- end }}
