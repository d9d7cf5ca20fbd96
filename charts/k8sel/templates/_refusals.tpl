{{/*
What is wrong in a job whose form is right, in the words of `k8sel validate` (k8sel/rules/): each template here is the
rules of one subject. All problems at once, as path: kind: message. Hint: hint. What only Python can say is left to it: the
nearest right word, a command line as a list, and the warnings.

Each takes plan, rows, spec, asked (the accelerator), words (facts.refusals) and found, the list that grows.
*/}}
{{- define "k8sel.refusals" -}}
{{- $found := dict "lines" list -}}
{{- $about := dict "plan" .plan "rows" .rows "spec" .plan.spec "asked" .plan.spec.accelerator "words" .plan.facts.refusals "found" $found -}}
{{- range tuple "type" "devices" "shares" "row" "memory" "target" "command" "entrypoint" "backend" "ccl" "cpu" "names" "keys" "env" "said" "volumes" "mounts" "resources" "quantities" "forms" "security" "binding" "ssh" -}}
{{- include (printf "k8sel.refusals.%s" .) $about -}}
{{- end -}}
{{- with $found.lines }}{{ uniq . | join "\n" | printf "\n%s" | fail }}{{ end -}}
{{- end -}}

{{/* Adds a problem. Takes found, then path, kind, message and hint. */}}
{{- define "k8sel.refuse" -}}
{{- $line := printf "%s: %s: %s." (index . 1) (index . 2) (index . 3) -}}
{{- with index . 4 }}{{ $line = printf "%s Hint: %s" $line . }}{{ end -}}
{{- $found := index . 0 -}}
{{- $_ := set $found "lines" (append $found.lines $line) -}}
{{- end -}}

{{/* A text in quotes, short enough for one line. */}}
{{- define "k8sel.quoted" -}}
{{- gt (len .) 60 | ternary (regexFind `(?s)^.{0,57}` . | printf "%s...") . | toRawJson -}}
{{- end -}}

{{/* The same without quotes, where it is a short plain word. */}}
{{- define "k8sel.bare" -}}
{{- if regexMatch `^[ -~]{1,60}$` . }}{{ . }}{{ else }}{{ include "k8sel.quoted" . }}{{ end -}}
{{- end -}}

{{/* Numbers as in a file: [2, 0]. */}}
{{- define "k8sel.numbers" -}}
{{- printf "[%s]" (include "k8sel.commas" . | replace "," ", ") -}}
{{- end -}}

{{- define "k8sel.some" -}}
{{- if eq (int .) 1 }}1 device{{ else }}{{ int . }} devices{{ end -}}
{{- end -}}

{{/* Whether a text is a DNS subdomain. */}}
{{- define "k8sel.isSubdomain" -}}
{{- if and (le (len .) 253) (regexMatch `^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$` .) }}yes{{ end -}}
{{- end -}}

{{- define "k8sel.refusals.type" -}}
{{- $path := "spec.accelerator.type" -}}
{{- $row := .plan.row -}}
{{- if eq .asked.type "auto" -}}
{{- $hint := printf "one of %s" (join ", " .words.types) -}}
{{- include "k8sel.refuse" (list .found $path "forbidden" "only `k8sel run` can look which devices there are" $hint) -}}
{{- else if and $row (not $row.inContainer) -}}
{{- $message := printf "%s cannot be given to a container" $row.title -}}
{{- include "k8sel.refuse" (list .found $path "forbidden" $message (trimSuffix "." $row.note)) -}}
{{- end -}}
{{- end -}}

{{/* The numbers among each other. */}}
{{- define "k8sel.refusals.devices" -}}
{{- $asked := .asked -}}
{{- $found := .found -}}
{{- $without := and .plan.row (not .plan.row.maskEnv) -}}
{{- $count := int $asked.count -}}
{{- $top := -1 -}}
{{- $seen := list -}}
{{- range $index, $device := $asked.devices -}}
{{- $top = max $top (int $device) -}}
{{- if has (int $device) $seen -}}
{{- $first := 0 -}}
{{- range $place, $other := reverse $seen }}{{ if eq $other (int $device) }}{{ $first = sub (sub (len $seen) $place) 1 }}{{ end }}{{ end -}}
{{- $message := printf "device %d is devices[%d] already" (int $device) $first -}}
{{- include "k8sel.refuse" (list $found (printf "spec.accelerator.devices[%d]" $index) "duplicate" $message "name each device once") -}}
{{- end -}}
{{- $seen = append $seen (int $device) -}}
{{- end -}}
{{- if and $without .plan.row.inContainer (or $count $asked.devices) -}}
{{- $wanted := printf "asks for %s" (include "k8sel.some" $count) -}}
{{- $named := include "k8sel.numbers" $asked.devices -}}
{{- if and $asked.devices (ne $named (include "k8sel.numbers" (until $count))) }}{{ $wanted = printf "names %s" $named }}{{ end -}}
{{- $message := printf "type %s has no devices, and the file %s" $asked.type $wanted -}}
{{- include "k8sel.refuse" (list $found "spec.accelerator" "forbidden" $message "leave count and devices out") -}}
{{- else if and $asked.devices (le $count $top) (not $without) -}}
{{- $hint := printf "count: %d" (add1 $top) -}}
{{- if and (le (len $asked.devices) $count) (eq (len (uniq $seen)) (len $seen)) -}}
{{- $exposed := include "k8sel.ascending" $asked.devices | mustFromJson -}}
{{- $ranks := include "k8sel.positions" (list $exposed $asked.devices) | mustFromJson -}}
{{- $hint = printf "%s, or devices: %s" $hint (include "k8sel.numbers" $ranks) -}}
{{- end -}}
{{- $message := printf "device %d needs count > %d, and count is %d" $top $top $count -}}
{{- range $index, $device := $asked.devices -}}
{{- if eq (int $device) (int $top) -}}
{{- include "k8sel.refuse" (list $found (printf "spec.accelerator.devices[%d]" $index) "invalid" $message $hint) -}}
{{- end -}}
{{- end -}}
{{- else if and (not $asked.devices) $count (not $without) -}}
{{- $message := printf "no device is used, and count asks for %d" $count -}}
{{- include "k8sel.refuse" (list $found "spec.accelerator.count" "invalid" $message "leave count out, or name the devices to use") -}}
{{- end -}}
{{- end -}}

{{/* What the processes see of them. */}}
{{- define "k8sel.refusals.shares" -}}
{{- $row := .plan.row -}}
{{- $devices := .asked.devices -}}
{{- $number := len $devices -}}
{{- $processes := int .spec.processesPerNode -}}
{{- $process := eq .asked.isolation "process" -}}
{{- if and $devices (gt $processes $number) -}}
{{- $message := printf "%d processes, and %s for them on a node" $processes (include "k8sel.some" $number) -}}
{{- $hint := printf "processesPerNode: %d, or more devices" $number -}}
{{- include "k8sel.refuse" (list .found "spec.processesPerNode" "invalid" $message $hint) -}}
{{- else if and $process (gt $number $processes) (mod $number $processes) -}}
{{- $possible := list -}}
{{- range untilStep 1 (int (add1 $number)) 1 }}{{ if not (mod $number .) }}{{ $possible = append $possible (toString .) }}{{ end }}{{ end -}}
{{- $message := printf "%d devices do not go into equal shares for %d processes" $number $processes -}}
{{- include "k8sel.refuse" (list .found "spec.processesPerNode" "invalid" $message (printf "one of %s" (join ", " $possible))) -}}
{{- end -}}
{{- if and $row $row.maskEnv -}}
{{- $size := $process | ternary (div $number $processes) $number | max 1 | int -}}
{{- $sorted := include "k8sel.ascending" $devices | mustFromJson | include "k8sel.numbers" -}}
{{- $other := $process | ternary "" ", or isolation: process, which gives each process a mask of its own" -}}
{{- $ordered := true -}}
{{- $whole := true -}}
{{- range $share := chunk $size $devices -}}
{{- $ascending := include "k8sel.ascending" $share | mustFromJson -}}
{{- if ne (toJson $ascending) (toJson $share) }}{{ $ordered = false }}{{ end -}}
{{- if ge (sub (last $ascending | int) (first $ascending | int)) (len $share | int64) }}{{ $whole = false }}{{ end -}}
{{- end -}}
{{- if not (or $row.maskOrdered $ordered) -}}
{{- $message := printf "%s cannot order devices: the processes would see %s" $row.maskEnv $sorted -}}
{{- include "k8sel.refuse" (list .found "spec.accelerator.devices" "invalid" $message (printf "devices: %s%s" $sorted $other)) -}}
{{- end -}}
{{- if not (or $whole (ne $row.maskValue "range") (eq .asked.allocation "host")) -}}
{{- $message := printf "%s is one range: devices %s leave a gap in it" $row.maskEnv $sorted -}}
{{- $hint := printf "devices that lie side by side%s" $other -}}
{{- include "k8sel.refuse" (list .found "spec.accelerator.devices" "invalid" $message $hint) -}}
{{- end -}}
{{- if and $process $devices (gt $processes 1) (eq $row.maskValue "module") -}}
{{- $message := printf "a process finds its device in %s by its local rank: each has its own already" $row.maskEnv -}}
{{- include "k8sel.refuse" (list .found "spec.accelerator.isolation" "forbidden" $message "leave isolation out") -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What the row of the table has. */}}
{{- define "k8sel.refusals.row" -}}
{{- $row := .plan.row -}}
{{- $asked := .asked -}}
{{- $found := .found -}}
{{- if $row -}}
{{- if and (ne $asked.order "pci") (not (hasKey $row.orderEnv $asked.order)) -}}
{{- $orders := default (list "pci") (keys $row.orderEnv | sortAlpha) -}}
{{- $message := printf "%q is not %s%s" $asked.order (gt (len $orders) 1 | ternary "one of " "") (join ", " $orders) -}}
{{- include "k8sel.refuse" (list $found "spec.accelerator.order" "not supported" $message (printf "type %s counts one way only" $asked.type)) -}}
{{- end -}}
{{- if hasKey $asked "resource" -}}
{{- include "k8sel.refusals.resource" . -}}
{{- end -}}
{{- if and $row.maskEnv (eq $asked.allocation "host") -}}
{{- $message := "" -}}
{{- if not $row.exposureEnv -}}
{{- $message = printf "for type %s no variable says which of a host's devices enter a container" $asked.type -}}
{{- else if eq $row.maskValue "module" -}}
{{- $message = printf "what a number of %s is in %s differs from host to host" $row.exposureEnv $row.maskEnv -}}
{{- end -}}
{{- if $message }}{{ include "k8sel.refuse" (list $found "spec.accelerator.allocation" "forbidden" $message "allocation: devicePlugin") }}{{ end -}}
{{- end -}}
{{- if and $asked.product (not $row.productLabel) -}}
{{- $message := printf "nodes have no label that tells the product of type %s" $asked.type -}}
{{- include "k8sel.refuse" (list $found "spec.accelerator.product" "forbidden" $message "nodeSelector, with a label of your own") -}}
{{- end -}}
{{- $hint := "" -}}
{{- with $row.productLabel }}{{ $hint = printf "kubectl get nodes -L %s shows the values" . }}{{ end -}}
{{- $words := .words -}}
{{- range $index, $product := $asked.product -}}
{{- if not (regexMatch $words.labelValue $product) -}}
{{- $message := printf "%s: %s" (include "k8sel.quoted" $product) $words.labelRule -}}
{{- include "k8sel.refuse" (list $found (printf "spec.accelerator.product[%d]" $index) "invalid" $message $hint) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A resource is another name for the same kind of device. */}}
{{- define "k8sel.refusals.resource" -}}
{{- $path := "spec.accelerator.resource" -}}
{{- $row := .plan.row -}}
{{- $resource := .asked.resource -}}
{{- if not $row.resourcePattern -}}
{{- include "k8sel.refuse" (list .found $path "forbidden" (printf "type %s has no devices to ask for" .asked.type) "leave it out") -}}
{{- else if not (regexMatch (printf "^(?:%s)$" $row.resourcePattern) $resource) -}}
{{- $hint := printf "%s, or another name of the same plugin" $row.resourceName -}}
{{- $rows := .rows -}}
{{- range reverse .words.rows -}}
{{- $pattern := (get $rows .).resourcePattern -}}
{{- if and $pattern (regexMatch (printf "^(?:%s)$" $pattern) $resource) }}{{ $hint = printf "type: %s has it" . }}{{ end -}}
{{- end -}}
{{- $message := printf "%s is not a resource of type %s" (include "k8sel.quoted" $resource) .asked.type -}}
{{- include "k8sel.refuse" (list .found $path "invalid" $message $hint) -}}
{{- else if eq .asked.allocation "host" -}}
{{- include "k8sel.refuse" (list .found $path "forbidden" "allocation host asks for no resource" "leave resource out, or allocation: devicePlugin") -}}
{{- end -}}
{{- end -}}

{{/* Memory is the devices'; the node's own is asked for elsewhere. */}}
{{- define "k8sel.refusals.memory" -}}
{{- $path := "spec.accelerator.memory" -}}
{{- if hasKey .asked "memory" -}}
{{- $bytes := include "k8sel.whole" (dict "plan" .plan "quantity" .asked.memory) | int64 -}}
{{- if or (not .asked.devices) (and .plan.row (not .plan.row.maskEnv)) -}}
{{- include "k8sel.refuse" (list .found $path "forbidden" "no device is asked for, so none has memory" "the node's own is resources.memory") -}}
{{- else if and (gt $bytes 0) (lt $bytes (int64 .words.leastMemory)) -}}
{{- $message := printf "%s counts bytes, and no device has so few" (include "k8sel.quantity" .asked.memory) -}}
{{- include "k8sel.refuse" (list .found $path "invalid" $message "a unit: 40Gi, say") -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Launcher and target. */}}
{{- define "k8sel.refusals.target" -}}
{{- $spec := .spec -}}
{{- $launchers := .plan.facts.launchers -}}
{{- $targets := (get $launchers $spec.launcher).targets -}}
{{- if not (has $spec.target $targets) -}}
{{- $fitting := list -}}
{{- range .words.launchers }}{{ if has $spec.target (get $launchers .).targets }}{{ $fitting = append $fitting . }}{{ end }}{{ end -}}
{{- $message := printf "target %s cannot serve launcher %s, which runs as %s" $spec.target $spec.launcher (join " or " $targets) -}}
{{- include "k8sel.refuse" (list .found "spec.target" "invalid" $message (printf "leave target out, or use launcher %s" (join ", " $fitting))) -}}
{{- end -}}
{{- if and (ne $spec.launcher "mpirun") .plan.givenMpi -}}
{{- include "k8sel.refuse" (list .found "spec.mpi" "forbidden" (printf "launcher %s uses no MPI" $spec.launcher) "leave mpi out, or launcher: mpirun") -}}
{{- end -}}
{{- if and $spec.policy.maxRestarts (has $spec.launcher (list "mpirun" "python")) -}}
{{- $message := printf "launcher %s restarts no processes" $spec.launcher -}}
{{- include "k8sel.refuse" (list .found "spec.policy.maxRestarts" "forbidden" $message "launcher: torchrun, which restarts a node's processes") -}}
{{- end -}}
{{- if and (eq $spec.launcher "python") (gt (int $spec.processesPerNode) 1) -}}
{{- $message := printf "launcher python starts one process on a node, not %d" (int $spec.processesPerNode) -}}
{{- include "k8sel.refuse" (list .found "spec.processesPerNode" "invalid" $message "launcher: torchrun, or leave processesPerNode out") -}}
{{- end -}}
{{- $scheduling := $spec.scheduling -}}
{{- if and (eq (default "" $scheduling.gang) "volcano") $scheduling.schedulerName (ne (default "" $scheduling.schedulerName) "volcano") -}}
{{- $message := printf "gang volcano is formed by the scheduler volcano, not by %s" (include "k8sel.bare" $scheduling.schedulerName) -}}
{{- include "k8sel.refuse" (list .found "spec.scheduling.schedulerName" "invalid" $message "leave it out") -}}
{{- end -}}
{{- end -}}

{{/* What is started. */}}
{{- define "k8sel.refusals.command" -}}
{{- $found := .found -}}
{{- $command := .spec.command -}}
{{- $words := .words -}}
{{- $image := default "" .spec.image -}}
{{- if not $image -}}
{{- include "k8sel.refuse" (list $found "spec.image" "required" "a container needs an image" "the image that has the training program") -}}
{{- else if regexMatch (printf "%s|\x00" .words.space) $image -}}
{{- $message := printf "%s has white space in it" (include "k8sel.quoted" $image) -}}
{{- include "k8sel.refuse" (list $found "spec.image" "invalid" $message "write the image's name only") -}}
{{- end -}}
{{- $program := first $command -}}
{{- $trimmed := regexReplaceAll (printf "^(%s)+|(%s)+$" .words.space .words.space) $program "" -}}
{{- if not $trimmed -}}
{{- include "k8sel.refuse" (list $found "spec.command[0]" "invalid" "the program's name is empty" "for example [python, train.py]") -}}
{{- else if and (eq (len $command) 1) (regexMatch .words.space $trimmed) -}}
{{- $message := "this is one word with spaces in it, and would be looked for as a program of that name" -}}
{{- include "k8sel.refuse" (list $found "spec.command[0]" "invalid" $message "command: a list of words, as [python, train.py]") -}}
{{- end -}}
{{- range $index, $word := $command -}}
{{- if contains "\x00" $word -}}
{{- include "k8sel.refuse" (list $found (printf "spec.command[%d]" $index) "invalid" "a program's argument cannot hold a zero byte" "") -}}
{{- end -}}
{{- end -}}
{{- $named := base $program -}}
{{- $starters := dict -}}
{{- if has $named $words.starters -}}
{{- $_ := set $starters "0" $named -}}
{{- else -}}
{{- range $index, $word := rest $command -}}
{{- $before := index $command $index -}}
{{- $at := add1 $index | toString -}}
{{- if and (not $starters) (eq $before "-m") (has $word $words.modules) (hasPrefix "python" $named) }}{{ $_ := set $starters $at $word }}{{ end -}}
{{- if and (not $starters) (has $before (list "-c" "-lc" "-ec")) (has $named (list "sh" "bash")) (regexMatch $words.inShell $word) -}}
{{- $_ := set $starters $at (regexReplaceAll (printf "(?s)^.*?%s.*$" $words.inShell) $word "${1}") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $at, $name := $starters -}}
{{- $message := printf "the launcher is put around the command, and %s is in it already" $name -}}
{{- $hint := "write what runs on one device, for example [python, train.py]; spec.launcher says the rest" -}}
{{- include "k8sel.refuse" (list $found (printf "spec.command[%s]" $at) "forbidden" $message $hint) -}}
{{- end -}}
{{- end -}}

{{/* What cannot do without the entrypoint. */}}
{{- define "k8sel.refusals.entrypoint" -}}
{{- $path := "spec.entrypoint.mode" -}}
{{- $row := .plan.row -}}
{{- $several := and (gt (int .spec.processesPerNode) 1) .asked.devices -}}
{{- if eq .spec.entrypoint.mode "none" -}}
{{- if and $several (eq .asked.isolation "process") -}}
{{- include "k8sel.refuse" (list .found $path "invalid" "isolation: process needs the entrypoint, which writes each process's own mask" "mode: configMap, or isolation: node") -}}
{{- end -}}
{{- if ne .spec.entrypoint.check "off" -}}
{{- include "k8sel.refuse" (list .found "spec.entrypoint.check" "forbidden" "mode none checks nothing" "leave check out, or mode: configMap") -}}
{{- end -}}
{{- if and $row .asked.devices (has $row.maskValue .plan.facts.maskedByNumber) -}}
{{- $message := printf "%s does not hold positions, and only the entrypoint sees what they stand for" $row.maskEnv -}}
{{- include "k8sel.refuse" (list .found $path "invalid" $message "mode: configMap") -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Names of objects and pods. */}}
{{- define "k8sel.refusals.names" -}}
{{- $found := .found -}}
{{- $spec := .spec -}}
{{- $name := .plan.name -}}
{{- if not (and (le (len $name) 63) (regexMatch .words.name $name)) -}}
{{- $message := printf "%s: lower-case letters, digits and '-'; starts with a letter, ends with a letter or digit" (include "k8sel.quoted" $name) -}}
{{- include "k8sel.refuse" (list $found "metadata.name" "invalid" $message "metadata.name stands over the release's name") -}}
{{- end -}}
{{- $mpi := eq $spec.target "MPIJob" -}}
{{- $pods := list (printf "%s-%s" $name ($mpi | ternary "launcher" "master-0")) -}}
{{- $workers := sub (int $spec.nodes) ($mpi | ternary 0 1) -}}
{{- if $workers }}{{ $pods = append $pods (printf "%s-worker-%d" $name (sub $workers 1)) }}{{ end -}}
{{- $longest := first $pods -}}
{{- range $pods }}{{ if gt (len .) (len $longest) }}{{ $longest = . }}{{ end }}{{ end -}}
{{- if gt (len $longest) 63 -}}
{{- $message := printf "the pod's name %s would have %d characters, and 63 are allowed" $longest (len $longest) -}}
{{- include "k8sel.refuse" (list $found "metadata.name" "invalid" $message (printf "at most %d characters" (sub (add 63 (len $name)) (len $longest)))) -}}
{{- end -}}
{{- $others := dict "spec.serviceAccountName" $spec.serviceAccountName "spec.scheduling.priorityClassName" $spec.scheduling.priorityClassName "spec.scheduling.schedulerName" $spec.scheduling.schedulerName -}}
{{- range $index, $secret := $spec.imagePullSecrets -}}
{{- $path := printf "spec.imagePullSecrets[%d]" $index -}}
{{- if not $secret.name -}}
{{- include "k8sel.refuse" (list $found (printf "%s.name" $path) "invalid" "a secret's name is missing" "") -}}
{{- end -}}
{{- $_ := set $others (printf "%s.name" $path) $secret.name -}}
{{- range omit $secret "name" | keys | sortAlpha -}}
{{- include "k8sel.refuse" (list $found (printf "%s.%s" $path .) "unknown field" "there is no such field here" "allowed: name") -}}
{{- end -}}
{{- end -}}
{{- $words := .words -}}
{{- range $path, $value := $others -}}
{{- if and $value (not (include "k8sel.isSubdomain" $value)) -}}
{{- include "k8sel.refuse" (list $found $path "invalid" $words.subdomainRule "") -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Keys and values of labels and annotations. */}}
{{- define "k8sel.refusals.keys" -}}
{{- $found := .found -}}
{{- $words := .words -}}
{{- $places := dict "metadata.labels" .plan.given.labels "metadata.annotations" .plan.given.annotations "spec.nodeSelector" .spec.nodeSelector -}}
{{- range $place, $entries := $places -}}
{{- range $key, $value := $entries -}}
{{- $path := printf "%s.%s" $place $key -}}
{{- $parts := regexFind `^.*/` $key -}}
{{- if not (regexMatch $words.labelName (trimPrefix $parts $key)) -}}
{{- $message := "a key's name has at most 63 letters, digits, '-', '_' and '.', a letter or digit first and last" -}}
{{- include "k8sel.refuse" (list $found $path "invalid" $message "for example team, or example.org/team") -}}
{{- else if and $parts (not (include "k8sel.isSubdomain" (trimSuffix "/" $parts))) -}}
{{- $message := printf "%s before the slash: %s" (include "k8sel.quoted" (trimSuffix "/" $parts)) $words.subdomainRule -}}
{{- include "k8sel.refuse" (list $found $path "invalid" $message "for example example.org/team") -}}
{{- end -}}
{{- if ne $place "spec.nodeSelector" -}}
{{- $reason := "" -}}
{{- range reverse $words.ownedKeys }}{{ if hasPrefix .start $key }}{{ $reason = .reason }}{{ end }}{{ end -}}
{{- if $reason }}{{ include "k8sel.refuse" (list $found $path "forbidden" $reason "leave it out") }}{{ end -}}
{{- end -}}
{{- if and (ne $place "metadata.annotations") (not (regexMatch $words.labelValue $value)) -}}
{{- include "k8sel.refuse" (list $found $path "invalid" $words.labelRule "") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if not (regexMatch $words.labelValue (default "" .spec.scheduling.queue)) -}}
{{- include "k8sel.refuse" (list $found "spec.scheduling.queue" "invalid" $words.labelRule "") -}}
{{- end -}}
{{- $size := 0 -}}
{{- range $key, $value := .plan.given.annotations }}{{ $size = add $size (len $key) (len $value) }}{{ end -}}
{{- if gt $size (int64 $words.annotationsLimit) -}}
{{- $message := printf "together they have %d bytes, and %d are allowed" $size (int64 $words.annotationsLimit) -}}
{{- include "k8sel.refuse" (list $found "metadata.annotations" "invalid" $message "a ConfigMap and a volume") -}}
{{- end -}}
{{- end -}}

{{/* Variables: well-formed, each once, and none that k8sel, an operator or a launcher writes. */}}
{{- define "k8sel.refusals.env" -}}
{{- $found := .found -}}
{{- $words := .words -}}
{{- $owned := list -}}
{{- range .rows }}{{ $owned = concat $owned .ownedEnv }}{{ end -}}
{{- $shell := or (eq .spec.entrypoint.mode "configMap") (eq .spec.launcher "mpirun") -}}
{{- $first := dict -}}
{{- range $index, $entry := .spec.env -}}
{{- $path := printf "spec.env[%d]" $index -}}
{{- $name := include "k8sel.bare" $entry.name -}}
{{- $why := dict -}}
{{- range reverse $words.ownedEnv }}{{ if hasPrefix .start (printf "%s=" $entry.name) }}{{ $why = . }}{{ end }}{{ end -}}
{{- if has $entry.name $owned }}{{ $why = $words.ownedByRow }}{{ end -}}
{{- if $why -}}
{{- include "k8sel.refuse" (list $found (printf "%s.name" $path) "forbidden" (printf "%s is not for the job file: %s" $name $why.reason) $why.hint) -}}
{{- end -}}
{{- if hasKey $first $entry.name -}}
{{- $message := printf "%s is env[%d] already" $name (get $first $entry.name) -}}
{{- include "k8sel.refuse" (list $found (printf "%s.name" $path) "duplicate" $message "keep one of the two") -}}
{{- else -}}
{{- $_ := set $first $entry.name $index -}}
{{- end -}}
{{- if and $shell (not (regexMatch `^[A-Za-z_][A-Za-z0-9_]*$` $entry.name)) -}}
{{- $message := printf "%s does not get through /bin/sh to the program" $name -}}
{{- include "k8sel.refuse" (list $found (printf "%s.name" $path) "invalid" $message "only letters, digits and '_', no digit first") -}}
{{- end -}}
{{- include "k8sel.refusals.envValue" (dict "found" $found "words" $words "path" $path "name" $name "entry" $entry) -}}
{{- end -}}
{{- end -}}

{{/* Either a value, or where it is from. Takes found, words, path, name and entry. */}}
{{- define "k8sel.refusals.envValue" -}}
{{- $found := .found -}}
{{- $path := .path -}}
{{- $entry := .entry -}}
{{- $value := default "" $entry.value -}}
{{- if and (hasKey $entry "value") (hasKey $entry "valueFrom") -}}
{{- include "k8sel.refuse" (list $found (printf "%s.valueFrom" $path) "forbidden" (printf "%s has a value and a valueFrom" .name) "keep one of the two") -}}
{{- else if not (or (hasKey $entry "value") (hasKey $entry "valueFrom")) -}}
{{- include "k8sel.refuse" (list $found (printf "%s.value" $path) "required" (printf "%s has neither a value nor a valueFrom" .name) `value: "" is an empty one`) -}}
{{- end -}}
{{- if hasKey $entry "valueFrom" -}}
{{- $sources := keys $entry.valueFrom -}}
{{- if or (ne (len $sources) 1) (not (has (first $sources) .words.sources)) -}}
{{- include "k8sel.refuse" (list $found (printf "%s.valueFrom" $path) "invalid" "it has to be exactly one source" (printf "one of %s" (join ", " .words.sources))) -}}
{{- end -}}
{{- end -}}
{{- if contains "\x00" $value -}}
{{- include "k8sel.refuse" (list $found (printf "%s.value" $path) "invalid" "a variable cannot hold a zero byte" "") -}}
{{- end -}}
{{- range regexFindAll `\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)` (replace "$$" "" $value) -1 -}}
{{- $name := trimPrefix "$(" . | trimSuffix ")" -}}
{{- if regexMatch `^(PET_|MASTER_|WORLD_SIZE=|RANK=|K_MPI_)` (printf "%s=" $name) -}}
{{- $message := printf "$(%s) stays as it is: the operator writes %s after the file's own variables" $name $name -}}
{{- include "k8sel.refuse" (list $found (printf "%s.value" $path) "invalid" $message (printf "read it in the program, or in a shell command as $%s" $name)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Each volume has a name of its own, and is one thing. */}}
{{- define "k8sel.refusals.volumes" -}}
{{- $found := .found -}}
{{- $first := dict -}}
{{- range $index, $volume := .spec.volumes -}}
{{- $path := printf "spec.volumes[%d]" $index -}}
{{- $name := $volume.name -}}
{{- if not (kindIs "string" $name) -}}
{{- include "k8sel.refuse" (list $found (printf "%s.name" $path) "required" "a volume needs a name" "") -}}
{{- else if hasPrefix "k8sel" $name -}}
{{- include "k8sel.refuse" (list $found (printf "%s.name" $path) "forbidden" "names that begin with k8sel are of k8sel's own volumes" "another name") -}}
{{- else if not (regexMatch `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$` $name) -}}
{{- $message := printf "%s: at most 63 lower-case letters, digits and '-', no '-' first or last" (include "k8sel.quoted" $name) -}}
{{- include "k8sel.refuse" (list $found (printf "%s.name" $path) "invalid" $message "") -}}
{{- else if hasKey $first $name -}}
{{- include "k8sel.refuse" (list $found (printf "%s.name" $path) "duplicate" (printf "%s is volumes[%d] already" $name (get $first $name)) "another name") -}}
{{- else -}}
{{- $_ := set $first $name $index -}}
{{- end -}}
{{- $sources := omit $volume "name" -}}
{{- $source := keys $sources | sortAlpha | first | default "" -}}
{{- if ne (len $sources) 1 -}}
{{- $names := list -}}
{{- range keys $sources | sortAlpha }}{{ $names = append $names (include "k8sel.bare" .) }}{{ end -}}
{{- $message := printf "a volume has exactly one source, and here is %s" (join " and " $names | default "none") -}}
{{- include "k8sel.refuse" (list $found $path "invalid" $message "for example persistentVolumeClaim: {claimName: data}") -}}
{{- else if not (kindIs "map" (get $sources $source)) -}}
{{- $hint := printf "%s: {} where it has no settings" (include "k8sel.bare" $source) -}}
{{- include "k8sel.refuse" (list $found (printf "%s.%s" $path $source) "invalid" "expected a mapping (key: value)" $hint) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What is mounted is there, and where it is mounted is free. */}}
{{- define "k8sel.refusals.mounts" -}}
{{- $found := .found -}}
{{- $names := list -}}
{{- range .spec.volumes }}{{ $names = append $names (toString .name) }}{{ end -}}
{{- $shown := list -}}
{{- range $names }}{{ $shown = append $shown (include "k8sel.bare" .) }}{{ end -}}
{{- $taken := list (dict "place" "/k8sel" "reason" "k8sel's entrypoint is mounted there") (dict "place" "/" "reason" "it would hide the whole image") -}}
{{- if hasKey .spec "sharedMemory" -}}
{{- $taken = append $taken (dict "place" "/dev/shm" "reason" "sharedMemory is mounted there") -}}
{{- end -}}
{{- if eq .spec.launcher "mpirun" -}}
{{- $taken = append $taken (dict "place" "/etc/mpi" "reason" "the operator mounts the list of hosts there") -}}
{{- $keys := regexReplaceAll `/+$` .spec.mpi.sshAuthMountPath "" -}}
{{- $taken = append $taken (dict "place" $keys "reason" "the operator mounts the ssh keys there") -}}
{{- end -}}
{{- $first := dict -}}
{{- range $index, $mount := .spec.volumeMounts -}}
{{- $path := printf "spec.volumeMounts[%d]" $index -}}
{{- if not (kindIs "string" $mount.name) -}}
{{- $hint := printf "one of %s" (join ", " $shown) -}}
{{- include "k8sel.refuse" (list $found (printf "%s.name" $path) "required" "a mount names its volume" (empty $names | ternary "" $hint)) -}}
{{- else if not (has $mount.name $names) -}}
{{- $only := empty $names | ternary "" (printf ", only %s" (join ", " $shown)) -}}
{{- $message := printf "there is no volume %s%s" (include "k8sel.quoted" $mount.name) $only -}}
{{- include "k8sel.refuse" (list $found (printf "%s.name" $path) "invalid" $message "volumes has to have it") -}}
{{- end -}}
{{- $path = printf "%s.mountPath" $path -}}
{{- $where := $mount.mountPath -}}
{{- if not (and (kindIs "string" $where) $where) -}}
{{- include "k8sel.refuse" (list $found $path "required" "a mount needs a mountPath" "mountPath: /data, say") -}}
{{- else if not (regexMatch `^/[^:]*$` $where) -}}
{{- $message := printf "%s is not an absolute path without a colon" (include "k8sel.quoted" $where) -}}
{{- include "k8sel.refuse" (list $found $path "invalid" $message "mountPath: /data, say") -}}
{{- else -}}
{{- $place := regexReplaceAll `/+$` $where "" | default "/" -}}
{{- if hasKey $first $place -}}
{{- $message := printf "%s is volumeMounts[%d] already" (include "k8sel.quoted" $place) (get $first $place) -}}
{{- include "k8sel.refuse" (list $found $path "duplicate" $message "another mountPath") -}}
{{- else -}}
{{- $_ := set $first $place $index -}}
{{- range $taken -}}
{{- $inside := and (ne .place "/") (hasPrefix (printf "%s/" .place) $place) -}}
{{- if or (eq $place .place) $inside -}}
{{- include "k8sel.refuse" (list $found $path "forbidden" .reason "another mountPath") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Resources that Kubernetes has, or that a plugin's domain has; devices are asked for in one place. */}}
{{- define "k8sel.refusals.resources" -}}
{{- $found := .found -}}
{{- $asked := .asked -}}
{{- $words := .words -}}
{{- $patterns := list -}}
{{- range .rows }}{{ with .resourcePattern }}{{ $patterns = append $patterns . }}{{ end }}{{ end -}}
{{- $devices := printf "^(?:%s)$" (join "|" $patterns) -}}
{{- range $name, $_ := .spec.resources -}}
{{- $path := printf "spec.resources.%s" $name -}}
{{- if not (or (has $name $words.native) (hasPrefix "hugepages-" $name)) -}}
{{- $domain := splitn "/" 2 $name -}}
{{- if not (contains "/" $name) -}}
{{- $message := printf "%s is not one of %s, hugepages-2Mi, example.org/name" (include "k8sel.quoted" $name) (join ", " $words.native) -}}
{{- $device := has (lower $name) (concat (list "gpu" "gpus") $words.rows) -}}
{{- include "k8sel.refuse" (list $found $path "not supported" $message ($device | ternary "accelerator.count asks for devices" "")) -}}
{{- else if not (and (include "k8sel.isSubdomain" $domain._0) (regexMatch $words.labelName $domain._1)) -}}
{{- $message := printf "%s is not a resource's name" (include "k8sel.quoted" $name) -}}
{{- include "k8sel.refuse" (list $found $path "invalid" $message "for example rdma/hca, vendor.example/device") -}}
{{- end -}}
{{- end -}}
{{- if or (eq $name (default "" $asked.resource)) (regexMatch $devices $name) -}}
{{- include "k8sel.refuse" (list $found $path "forbidden" "devices are asked for by accelerator" "accelerator.count, and accelerator.resource") -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Amounts that Kubernetes can read, and more than none. */}}
{{- define "k8sel.refusals.quantities" -}}
{{- $found := .found -}}
{{- $plan := .plan -}}
{{- $words := .words -}}
{{- $amounts := dict -}}
{{- range $name, $amount := .spec.resources }}{{ $_ := set $amounts (printf "spec.resources.%s" $name) $amount }}{{ end -}}
{{- if hasKey .spec "sharedMemory" }}{{ $_ := set $amounts "spec.sharedMemory" .spec.sharedMemory }}{{ end -}}
{{- if hasKey .asked "memory" }}{{ $_ := set $amounts "spec.accelerator.memory" .asked.memory }}{{ end -}}
{{- range $path, $amount := $amounts -}}
{{- $text := include "k8sel.quantity" $amount -}}
{{- if not (and (le (len $text) 64) (regexMatch $words.quantity $text)) -}}
{{- $hint := "" -}}
{{- $meant := regexFind `^[0-9.]+\s*[kmgtp]i?b?$` (lower $text) | trimSuffix "b" | nospace -}}
{{- if $meant -}}
{{- $letter := regexFind `[kmgtp]` $meant -}}
{{- $hint = hasSuffix "k" $meant | ternary $meant (replace $letter (upper $letter) $meant) -}}
{{- end -}}
{{- include "k8sel.refuse" (list $found $path "invalid" (printf "%s is not a quantity: %s" (include "k8sel.quoted" $text) $words.quantityRule) $hint) -}}
{{- else if not (regexMatch `^[+]?[0-9.]*[1-9]` $text) -}}
{{- include "k8sel.refuse" (list $found $path "invalid" (printf "%s is not more than 0" $text) "leave it out, or ask for some") -}}
{{- else if and (contains "/" $path) (include "k8sel.isFraction" (dict "plan" $plan "text" $text)) -}}
{{- include "k8sel.refuse" (list $found $path "invalid" (printf "%s of a plugin's resource: only whole ones are given" $text) "a whole number") -}}
{{- end -}}
{{- end -}}
{{- if and (hasKey .spec "sharedMemory") (hasKey .spec.resources "memory") -}}
{{- $held := include "k8sel.whole" (dict "plan" $plan "quantity" .spec.sharedMemory) | int64 -}}
{{- $limit := include "k8sel.whole" (dict "plan" $plan "quantity" .spec.resources.memory) | int64 -}}
{{- if and (gt $held $limit) (gt $limit 0) -}}
{{- $message := printf "%s counts as memory, and resources.memory is %s" (include "k8sel.quantity" .spec.sharedMemory) (include "k8sel.quantity" .spec.resources.memory) -}}
{{- include "k8sel.refuse" (list $found "spec.sharedMemory" "invalid" $message "more memory, or less sharedMemory") -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whether a quantity has something behind the point. Takes plan and text. */}}
{{- define "k8sel.isFraction" -}}
{{- $unit := regexFind `([KMGTPE]i|[numkMGTPE])$` .text -}}
{{- $amount := mulf (trimSuffix $unit .text | float64) (get .plan.facts.units $unit) -}}
{{- if ne $amount (ceil $amount) }}yes{{ end -}}
{{- end -}}

{{/* The form of those parts of Kubernetes' own fields that k8sel reads itself; the API server judges the rest. */}}
{{- define "k8sel.refusals.forms" -}}
{{- $about := . -}}
{{- range .words.forms -}}
{{- include "k8sel.refusals.form" (dict "found" $about.found "path" (printf "spec.%s" .field) "value" (get $about.spec .field) "form" .form "wanted" .wanted "word" .word) -}}
{{- end -}}
{{- end -}}

{{/* Walks down a form: a list of keys, * for every item of a list. Takes found, path, value, form, wanted (kinds) and word. */}}
{{- define "k8sel.refusals.form" -}}
{{- $here := . -}}
{{- if not .form -}}
{{- $whole := or (not (has "float64" .wanted)) (kindIs "string" .value) (hasSuffix ".0" (printf "%.1f" (float64 .value))) -}}
{{- if not (and (has (kindOf .value) .wanted) $whole) -}}
{{- include "k8sel.refuse" (list .found .path "invalid" (printf "expected %s" .word) "") -}}
{{- end -}}
{{- else if eq (first .form) "*" -}}
{{- if kindIs "slice" .value -}}
{{- range $index, $item := .value -}}
{{- $below := dict "path" (printf "%s[%d]" $here.path $index) "value" $item "form" (rest $here.form) -}}
{{- include "k8sel.refusals.form" (merge $below (omit $here "path" "value" "form")) -}}
{{- end -}}
{{- end -}}
{{- else if kindIs "map" .value -}}
{{- if hasKey .value (first .form) -}}
{{- $below := dict "path" (printf "%s.%s" .path (first .form)) "value" (get .value (first .form)) "form" (rest .form) -}}
{{- include "k8sel.refusals.form" (merge $below (omit $here "path" "value" "form")) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Users and rights, where the file contradicts itself. */}}
{{- define "k8sel.refusals.security" -}}
{{- $own := .spec.securityContext -}}
{{- $where := dict -}}
{{- $both := dict -}}
{{- range $key := list "runAsNonRoot" "runAsUser" -}}
{{- range $field := list "podSecurityContext" "securityContext" -}}
{{- if hasKey (get $.spec $field) $key -}}
{{- $_ := set $both $key (get (get $.spec $field) $key) -}}
{{- $_ := set $where $key (printf "spec.%s.%s" $field $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (eq (toJson $both.runAsNonRoot) "true") (eq (toJson $both.runAsUser) "0") -}}
{{- include "k8sel.refuse" (list .found $where.runAsUser "invalid" "runAsNonRoot is true, and user 0 is root" "runAsUser: 1000, say") -}}
{{- end -}}
{{- if and (eq (toJson $own.privileged) "true") (eq (toJson $own.allowPrivilegeEscalation) "false") -}}
{{- include "k8sel.refuse" (list .found "spec.securityContext.allowPrivilegeEscalation" "invalid" "a privileged container always may" "leave it out") -}}
{{- end -}}
{{- end -}}

{{/* Some MPI binds memory too, and dies where a container's seccomp profile leaves that to a capability. */}}
{{- define "k8sel.refusals.binding" -}}
{{- $mpi := .spec.mpi -}}
{{- if and (eq .spec.launcher "mpirun") (ne (default "none" $mpi.binding) "none") -}}
{{- with .plan.mpi.bindingCapability -}}
{{- if not (include "k8sel.mayBind" (dict "spec" $.spec "capability" .)) -}}
{{- $message := printf "%s binds memory too, which a container may not do without %s" $mpi.implementation . -}}
{{- $hint := printf "securityContext: {capabilities: {add: [%s]}}, or binding: none" . -}}
{{- include "k8sel.refuse" (list $.found "spec.mpi.binding" "invalid" $message $hint) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whether the container has that right, or a profile that is not the runtime's own. Takes spec and capability. */}}
{{- define "k8sel.mayBind" -}}
{{- $own := .spec.securityContext -}}
{{- $profile := hasKey $own "seccompProfile" | ternary $own .spec.podSecurityContext | dig "seccompProfile" dict -}}
{{- $kind := "null" -}}
{{- if kindIs "map" $profile }}{{ $kind = toJson $profile.type }}{{ end -}}
{{- $added := "" -}}
{{- if kindIs "map" $own.capabilities }}{{ $added = $own.capabilities.add }}{{ end -}}
{{- $may := and (kindIs "slice" $added) (or (has .capability $added) (has "ALL" $added)) -}}
{{- if or $may (eq (toJson $own.privileged) "true") (not (has $kind (list "null" `"RuntimeDefault"`))) }}yes{{ end -}}
{{- end -}}

{{/* ssh of an MPI job: its port, its keys, and who may read them. */}}
{{- define "k8sel.refusals.ssh" -}}
{{- if eq .spec.launcher "mpirun" -}}
{{- $path := .spec.mpi.sshAuthMountPath -}}
{{- $root := .plan.root -}}
{{- $port := int .spec.mpi.sshPort -}}
{{- if and (lt $port 1024) (not $root) -}}
{{- include "k8sel.refuse" (list .found "spec.mpi.sshPort" "invalid" (printf "only root may listen on port %d" $port) "leave it out: 2222 is used") -}}
{{- end -}}
{{- if ne (eq $path .plan.facts.mpi.rootSsh) $root -}}
{{- $message := printf "ssh of %s refuses the keys at %s" ($root | ternary "root" "a user that is not root") $path -}}
{{- include "k8sel.refuse" (list .found "spec.mpi.sshAuthMountPath" "invalid" $message "leave it out, or name the user: podSecurityContext: {runAsUser: 1000}, say") -}}
{{- end -}}
{{- if regexMatch "[\\s\"'\\\\,]" $path -}}
{{- $message := printf "%s has a character that ends an option of ssh" (include "k8sel.quoted" $path) -}}
{{- include "k8sel.refuse" (list .found "spec.mpi.sshAuthMountPath" "invalid" $message "use letters, digits, '/', '.', '-' and '_'") -}}
{{- end -}}
{{- if and $root (not (kindIs "invalid" .spec.podSecurityContext.fsGroup)) -}}
{{- include "k8sel.refuse" (list .found "spec.podSecurityContext.fsGroup" "invalid" "the group may read root's ssh keys then, and ssh refuses them" "leave it out, or runAsUser: 1000, say") -}}
{{- end -}}
{{- end -}}
{{- end -}}
