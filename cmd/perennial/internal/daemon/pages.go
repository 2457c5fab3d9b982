// The pages: how package web reads an account and asks its verbs.

package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/web"
	"perennial/queue"
	"perennial/schedules"
)

// KeyFile is where a data directory keeps the key that signs sessions and one-time links.
func KeyFile(dataDir string) string { return filepath.Join(dataDir, "web.key") }

// newPages makes the pages of all accounts.
func newPages(h *Host) (*web.Server, error) {
	key, err := web.Key(KeyFile(h.Config.DataDir), true)
	if err != nil {
		return nil, err
	}
	accounts := make([]web.Account, 0, len(h.Accounts))
	for _, a := range h.Accounts {
		accounts = append(accounts, pageAccount{a})
	}
	return web.New(web.Config{
		Accounts: accounts, Key: key, ServesHost: h.Config.HTTP.ServesHost, Clock: time.Now, Log: h.log.WithField("part", "web"), Version: config.Version,
		Tokens: func() ([]web.Token, error) {
			if h.Config.HTTP.TokensFile == "" {
				return nil, nil
			}
			return web.ReadTokens(h.Config.ResolvePath(h.Config.HTTP.TokensFile))
		},
	}), nil
}

// pageAccount is an account as the pages see it.
type pageAccount struct{ *account }

// AccountName implements web.Account.
func (p pageAccount) AccountName() string { return p.Name }

// Role implements web.Account.
func (p pageAccount) Role() string { return p.role() }

// Health implements web.Account.
func (p pageAccount) Health() []web.Check {
	all := p.checks()
	out := make([]web.Check, 0, len(all))
	for _, c := range all {
		out = append(out, web.Check(c))
	}
	return out
}

// Ask implements web.Account: the runner that has the account answers, wherever it is.
func (p pageAccount) Ask(ctx context.Context, verb string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	data, err := p.host.Queue.Request(ctx, p.Name, verb, body)
	if refused, ok := errors.AsType[*queue.ServiceError](err); ok {
		return errors.New(refused.Description)
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("the answer to %s cannot be read: %w", verb, err)
	}
	return nil
}

// Schedules implements web.Account.
func (p pageAccount) Schedules() []schedules.Schedule { return p.host.Config.SchedulesOf(p.Name) }

// ReadList implements web.Account.
func (p pageAccount) ReadList(name string) ([]byte, error) { return p.host.Config.ReadListFile(name) }
