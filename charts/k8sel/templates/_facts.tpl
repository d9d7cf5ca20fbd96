{{/*
What the templates look up: nothing about a vendor, a launcher or an MPI is written in a template.
The files are copies of k8sel's own (charts/generate.py); numbers in them arrive as floats, as all JSON's do here.
*/}}

{{/* A table's text, for mustFromJson. Helm gives "" for a file that is not there. Takes the root and the table's name. */}}
{{- define "k8sel.table" -}}
{{- $file := printf "files/%s.json" (index . 1) -}}
{{- (index . 0).Files.Get $file | required (printf "the chart lacks %s: python charts/generate.py" $file) -}}
{{- end -}}

{{/* The ConfigMap's name: it changes with the content, which cannot change under a name. Takes the root and the job's name. */}}
{{- define "k8sel.configMapName" -}}
{{- $files := (index . 0).Files -}}
{{- $content := printf "%s\x00%s" ($files.Get "files/entrypoint.sh") ($files.Get "files/entrypoint.pyz") -}}
{{- printf "%s-k8sel-%s" (index . 1) (sha256sum $content | trunc 10) -}}
{{- end -}}
