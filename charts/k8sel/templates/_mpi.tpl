{{/* MPI: mpirun's command line, and how it reaches the nodes over ssh, as JSON lists (k8sel/planning/mpi.py). */}}

{{/* Takes plan, perNode (processes to start on each node), binding and fixed (variables to set in them). */}}
{{- define "k8sel.mpirun" -}}
{{- $spec := .plan.spec -}}
{{- $cores := add (default 1 $spec.cpu.threadsPerProcess) (default 0 $spec.ccl.workers) -}}{{/* of the threads and oneCCL's workers */}}
{{- $numbers := list (list "{per_node}" (int64 .perNode)) (list "{total}" (mul $spec.nodes .perNode)) (list "{cores}" $cores) -}}
{{- $words := include "k8sel.replaced" (list (get .plan.mpi.words .binding) (concat $numbers .plan.ssh)) | mustFromJson -}}
{{- $words = concat $words (include "k8sel.exports" .plan | mustFromJson) -}}
{{- range .fixed -}}
{{- $pairs := list (list "{name}" .name) (list "{value}" .value) -}}
{{- $words = concat $words (include "k8sel.replaced" (list $.plan.mpi.set $pairs) | mustFromJson) -}}
{{- end -}}
{{- toJson $words -}}
{{- end -}}

{{/* The variables that mpirun sends from its own environment: a node's own do not reach the ranks. */}}
{{- define "k8sel.exports" -}}
{{- $checked := ne .spec.entrypoint.mode "none" -}}
{{- $own := concat (list (dict "name" "MASTER_ADDR")) .facts.mpi.constants (include "k8sel.ccl" . | mustFromJson) -}}
{{- $names := $checked | ternary (list .facts.entrypoint.variable) list -}}
{{- range $own }}{{ $names = append $names .name }}{{ end -}}
{{- range .spec.env -}}
{{- if not (and $checked (include "k8sel.ofItsPod" .)) }}{{ $names = append $names .name }}{{ end -}}
{{- end -}}
{{- $words := list -}}
{{- range uniq $names }}{{ $words = concat $words (list $.mpi.export .) }}{{ end -}}
{{- .mpi.exportList | ternary (list .mpi.export (uniq $names | join ",")) $words | toJson -}}
{{- end -}}
