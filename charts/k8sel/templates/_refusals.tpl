{{- define "k8sel.refusals" -}}
{{- end -}}
