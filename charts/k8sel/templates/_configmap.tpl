{{/* Brings the entrypoint into the job's containers: the job's own, and immutable. Takes files (the chart's) and plan. */}}
{{- define "k8sel.configMap" -}}
{{- $own := .plan.facts.entrypoint -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .plan.configMap }}
  {{- with .plan.namespace }}
  namespace: {{ . | quote }}
  {{- end }}
  labels:
    {{- toYaml .plan.labels | nindent 4 }}
immutable: true
data:
  {{ $own.script }}: {{ .files.Get "files/entrypoint.sh" | toJson }}
binaryData:
  {{ $own.archive }}: {{ .files.Get "files/entrypoint.pyz" | b64enc }}
{{- end -}}
