// render renders a chart for many values files in one process, since a helm for each would take a hundred times as long.
//
//	render CHART
//
// A JSON object a line on standard input: {"release": NAME, "namespace": NAME, "values": the file's text}; one a line on
// standard output: {"objects": [...], "hooks": [...]} in the order in which Helm installs them, or {"error": "..."}.
// It does what `helm template` does between reading the values and printing: schema, engine, sorting.
package main

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
	"sigs.k8s.io/yaml"
)

type request struct {
	Release   string `json:"release"`
	Namespace string `json:"namespace"`
	Values    string `json:"values"`
}

type answer struct {
	Objects []json.RawMessage `json:"objects,omitempty"`
	Hooks   []json.RawMessage `json:"hooks,omitempty"`
	Error   string            `json:"error,omitempty"`
}

func main() {
	loaded, err := loader.Load(os.Args[1])
	if err != nil {
		panic(err)
	}
	lines, out := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stdout)
	for lines.More() {
		var asked request
		if err := lines.Decode(&asked); err != nil {
			panic(err)
		}
		rendered, err := render(loaded, asked)
		if err != nil {
			rendered = answer{Error: err.Error()}
		}
		if err := out.Encode(rendered); err != nil {
			panic(err)
		}
	}
}

func render(from *chart.Chart, asked request) (answer, error) {
	given := map[string]interface{}{}
	if err := yaml.Unmarshal([]byte(asked.Values), &given); err != nil {
		return answer{}, err
	}
	release := chartutil.ReleaseOptions{Name: asked.Release, Namespace: asked.Namespace, Revision: 1, IsInstall: true}
	values, err := chartutil.ToRenderValues(from, given, release, chartutil.DefaultCapabilities)
	if err != nil {
		return answer{}, err
	}
	files, err := engine.Render(from, values)
	if err != nil {
		return answer{}, err
	}
	for name := range files {
		if strings.HasSuffix(name, "NOTES.txt") {
			delete(files, name)
		}
	}
	hooks, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return answer{}, err
	}
	var rendered answer
	for _, manifest := range manifests {
		if rendered.Objects, err = added(rendered.Objects, manifest.Content); err != nil {
			return answer{}, err
		}
	}
	for _, hook := range hooks {
		if rendered.Hooks, err = added(rendered.Hooks, hook.Manifest); err != nil {
			return answer{}, err
		}
	}
	return rendered, nil
}

func added(to []json.RawMessage, text string) ([]json.RawMessage, error) {
	object, err := yaml.YAMLToJSON([]byte(text))
	return append(to, object), err
}
