package walls

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

func text(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestImagesHaveEveryProgram checks that each program is compiled, has an image, and that the build
// gets the modules that the command line requires.
func TestImagesHaveEveryProgram(t *testing.T) {
	dockerfile := text(t, deployed("images", "Dockerfile"))
	compile := text(t, deployed("images", "compile.sh"))
	ignored := strings.Split(text(t, filepath.Join(repository, ".dockerignore")), "\n")
	for _, program := range append(slices.Clone(daemons), "portolan") {
		if !strings.Contains(dockerfile, " AS "+program+"\n") || !strings.Contains(dockerfile, "/out/"+program+" ") {
			t.Errorf("deploy/images/Dockerfile has no stage of %s", program)
		}
		if !regexp.MustCompile(`/cmd/` + program + `\b`).MatchString(compile) {
			t.Errorf("deploy/images/compile.sh does not compile %s", program)
		}
	}
	replaced := regexp.MustCompile(`(?m)^replace portolan\.dev/(\w+) =>`).FindAllStringSubmatch(text(t, filepath.Join(repository, "portolan", "go.mod")), -1)
	modules := []string{"portolan"}
	for _, match := range replaced {
		modules = append(modules, match[1])
	}
	for _, module := range modules {
		if !slices.Contains(ignored, "!"+module) {
			t.Errorf(".dockerignore keeps the module %s from the build", module)
		}
	}
	if len(modules) < len(daemons) {
		t.Errorf("only the modules %v were found", modules)
	}
}

// TestComposeBuildsItsImages checks that one service of each image of Portolan builds it, that this
// service comes before the others (docker-compose 1.29 would try to pull the image for an earlier one),
// and that no service pulls it.
func TestComposeBuildsItsImages(t *testing.T) {
	var stack struct{ Services yaml.Node }
	decode(t, filepath.Join(repository, "docker-compose.yml"), yaml.Unmarshal, &stack)
	built := map[string]string{} // service by image
	for i := 0; i+1 < len(stack.Services.Content); i += 2 {
		name := stack.Services.Content[i].Value
		var service struct {
			Image      string
			Build      struct{ Target, Dockerfile string }
			PullPolicy string `yaml:"pull_policy"`
		}
		if err := stack.Services.Content[i+1].Decode(&service); err != nil {
			t.Fatal(err)
		}
		image, ours := strings.CutPrefix(service.Image, "portolan/")
		if !ours {
			continue
		}
		if service.PullPolicy != "never" {
			t.Errorf("%s: pull_policy %q: Compose asks a registry for %s", name, service.PullPolicy, service.Image)
		}
		target, _, _ := strings.Cut(image, ":")
		switch other, ok := built[target]; {
		case service.Build.Target == "" && !ok:
			t.Errorf("%s uses %s, which no service before it builds", name, service.Image)
		case service.Build.Target != "" && ok:
			t.Errorf("%s builds %s, which %s builds already", name, service.Image, other)
		case service.Build.Target != "" && service.Build.Target != target:
			t.Errorf("%s builds the stage %s as %s", name, service.Build.Target, service.Image)
		}
		if service.Build.Target != "" {
			built[target] = name
		}
	}
	for image := range built {
		if image != "portolan" && !slices.Contains(daemons, image) {
			t.Errorf("%s is the image of no program", image)
		}
	}
	if len(built) < 9 {
		t.Errorf("only the images %v are built", built)
	}
}
