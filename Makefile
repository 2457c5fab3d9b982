# Targets for engineers. The tests for everybody are `go test ./...`.

N ?= 20
ONLY ?=

.PHONY: quick
quick: ## the packages that need no database, no stream and no process
	go test ./jobs/command ./jobs/decide ./ledger/fact ./ledger/sleep ./cmd/perennial/internal/config

.PHONY: check
check: ## the larger run of the tests, about 15 minutes on two cores; ONLY=crash is one stage of it
	.ci/check $(ONLY)

.PHONY: times
times: ## record how long each test takes; .ci/run compares its run with this record
	go test -json -count=1 ./... | go run ./.ci/testtimes -update .ci/testtimes/record.tsv

.PHONY: screenshots
screenshots: ## docs/images/web-*.png, taken in Chromium of a real run on the sandbox
	go test -tags check -count=1 -timeout 5m -run 'TestBrowserScreenshots' ./cmd/perennial/internal/crashtest -args -shots "$(CURDIR)/docs/images"

PREFIX ?= /usr/local
DESTDIR ?=
share = $(DESTDIR)$(PREFIX)/share

.PHONY: install
install: ## the program, its manual pages, and completion for bash, zsh and fish, below PREFIX (/usr/local); a package is built with GOFLAGS=-trimpath
	install -d "$(DESTDIR)$(PREFIX)/bin" "$(share)/man/man1" "$(share)/bash-completion/completions" "$(share)/zsh/site-functions" "$(share)/fish/vendor_completions.d"
	CGO_ENABLED=1 go build -o "$(DESTDIR)$(PREFIX)/bin/perennial" ./cmd/perennial
	"$(DESTDIR)$(PREFIX)/bin/perennial" manual "$(share)/man/man1"
	"$(DESTDIR)$(PREFIX)/bin/perennial" completion bash > "$(share)/bash-completion/completions/perennial"
	"$(DESTDIR)$(PREFIX)/bin/perennial" completion zsh > "$(share)/zsh/site-functions/_perennial"
	"$(DESTDIR)$(PREFIX)/bin/perennial" completion fish > "$(share)/fish/vendor_completions.d/perennial.fish"

.PHONY: soak
soak: ## repeat the tests with random moments and seeds N times; the seeds are printed
	go test -tags check ./jobs -run 'TestSimulation(OnSeveralMachines)?$$' -sim.first "$$(date +%s)00000" -sim.seeds $$((500 * $(N))) -timeout 8h -v
	go test -tags check ./cmd/perennial/internal/crashtest -run 'TestCrashMatrix|TestKilledAtRandom' -count $(N) -timeout 4h -v
	go test -tags check ./cmd/perennial/internal/clustertest -cluster.rounds $$((10 * $(N))) -timeout 8h -v
	go test ./upstream/sandbox -run 'TestKilledAgain' -count $(N) -timeout 1h -v

.PHONY: site
site: ## the documentation as static pages with search, in docs/site/dist; npm builds them
	npm ci --prefix docs/site --loglevel error
	npm run --silent --prefix docs/site build
	npm run --silent --prefix docs/site check

vale = v3.15.2

.PHONY: prose
prose: ## the words of the documents and of Go comments, and the length of sentences; vale is built in .ci/bin, which takes a minute
	test -x .ci/bin/vale || GOBIN="$(CURDIR)/.ci/bin" GOFLAGS="" go install github.com/errata-ai/vale/v3/cmd/vale@$(vale)
	.ci/bin/vale --config=.ci/vale/vale.ini --output=line README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md docs/*.md docs/benchmarks/README.md docs/decisions docs/events/README.md docs/events/examples/README.md docs/tutorials
	.ci/bin/vale --config=.ci/vale/vale.ini --output=line --glob='*.go' cmd jobs ledger queue schedules testdata upstream

.PHONY: picture
picture: ## docs/images/demo.svg, drawn from a run of the demonstration
	go run ./cmd/perennial demo > docs/images/demo.txt
	go run ./docs/images/record < docs/images/demo.txt > docs/images/demo.svg
	rm docs/images/demo.txt

RELEASE ?= dist
version = $(shell sed -n 's/^var Version = "\(.*\)"/\1/p' cmd/perennial/internal/config/version.go)
cyclonedx = github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
# Static: names are resolved and users looked up by Go, and SQLite loads no extensions.
static = -trimpath -tags 'netgo,osusergo,sqlite_omit_load_extension' -ldflags '-s -w -buildid= -linkmode external -extldflags "-static -Wl,--build-id=none"'

.PHONY: release
release: ## static Linux binaries for amd64 and arm64, a list of what is in them, and checksums, in dist; the same commit gives the same bytes
	test -z "$$(git status --porcelain)" || { echo "commit first: a release is of a commit" >&2; exit 1; }
	rm -rf "$(RELEASE)" && mkdir -p "$(RELEASE)"
	GOFLAGS=-buildvcs=true CGO_ENABLED=1 GOOS=linux GOARCH=amd64 CC=x86_64-linux-gnu-gcc go build $(static) -o "$(RELEASE)/perennial-$(version)-linux-amd64" ./cmd/perennial
	GOFLAGS=-buildvcs=true CGO_ENABLED=1 GOOS=linux GOARCH=arm64 CC=aarch64-linux-gnu-gcc go build $(static) -o "$(RELEASE)/perennial-$(version)-linux-arm64" ./cmd/perennial
	go run $(cyclonedx) bin -json -std -licenses -noserial -notimestamp -version "$(version)" -output "$(RELEASE)/perennial-$(version).cdx.json" "$(RELEASE)/perennial-$(version)-linux-amd64"
	cd "$(RELEASE)" && sha256sum perennial-* > SHA256SUMS
