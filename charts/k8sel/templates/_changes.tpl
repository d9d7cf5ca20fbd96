{{/*
Refuses to change a job that exists: neither operator rolls a changed template out to pods that exist, so the job would
say one thing and its pods do another. What is on the cluster is only known to install and upgrade, so that `helm
template` never gets here. Takes release and plan.
*/}}
{{- define "k8sel.unchanged" -}}
{{- $plan := .plan -}}
{{- $kind := $plan.spec.target -}}
{{- $namespace := default .release.Namespace $plan.namespace -}}
{{- $operator := (get $plan.facts.jobs $kind).operator -}}
{{- $live := lookup (get $plan.facts.jobs $kind).apiVersion $kind $namespace $plan.name -}}
{{- if $live -}}
{{- $same := eq (dig "metadata" "annotations" $plan.facts.labels.jobFile "" $live) $plan.sha256 -}}
{{- if and $same $plan.configMap }}{{ $same = lookup "v1" "ConfigMap" $namespace $plan.configMap }}{{ end -}}
{{- if not $same -}}
{{- $way := printf "helm uninstall -n %s %s, then install again; or give the job another name" .release.Namespace .release.Name -}}
{{- $fact := printf "%s %s exists, and the %s does not change a job's pods once it is made" $kind $plan.name $operator -}}
{{- fail (printf "%s. Hint: %s" $fact $way) -}}
{{- end -}}
{{- end -}}
{{- end -}}
