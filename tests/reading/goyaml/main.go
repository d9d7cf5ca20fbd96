// goyaml reads YAML texts as Kubernetes does: a JSON list of texts on standard input, a JSON list of values on standard
// output. A text that is refused gives {"error": "..."}, any other {"value": ...}.
package main

import (
	"encoding/json"
	"os"

	"sigs.k8s.io/yaml"
)

func main() {
	var texts []string
	if err := json.NewDecoder(os.Stdin).Decode(&texts); err != nil {
		panic(err)
	}
	answers := make([]map[string]any, len(texts))
	for i, text := range texts {
		value, err := yaml.YAMLToJSONStrict([]byte(text))
		if err != nil {
			answers[i] = map[string]any{"error": err.Error()}
		} else {
			answers[i] = map[string]any{"value": json.RawMessage(value)}
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		panic(err)
	}
}
