package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"perennial/queue"
)

// rolesPatience bounds what is tried as one user.
const rolesPatience = 10 * time.Second

// roles connects as each configured user whose password is at hand, and asks for what
// its roles do not give: reading verbs and stream descriptions only, so that nothing
// is changed where the server lets it through.
func (d *doctor) roles(ctx context.Context, address string) {
	users, err := d.config.natsUsers()
	if err != nil {
		d.bad("roles", err, "mend the password file")
		return
	}
	separate, tried := true, 0
	for i, u := range users {
		configured := d.config.NATS.Users[i]
		if configured.Password != "" {
			continue // a hash does not connect
		}
		target := queue.ConnectConfig{URL: address, User: u.Name, Password: u.Password}
		if configured.CredsFile != "" {
			target = queue.ConnectConfig{URL: address, CredsFile: d.config.beside(configured.CredsFile)}
		}
		through, err := d.reaches(ctx, target, u)
		if err != nil {
			d.bad("roles", fmt.Sprintf("user %s: %v", u.Name, err), "give the NATS server the users and accounts that `perennial nats-config` prints")
			separate = false
			continue
		}
		tried++
		if len(through) > 0 {
			d.bad("roles", fmt.Sprintf("user %s reaches %s without a role for it", u.Name, strings.Join(through, ", ")),
				"give the NATS server the users and accounts that `perennial nats-config` prints, and no other permissions")
			separate = false
		}
	}
	if separate && tried > 0 {
		d.ok("roles", "%d users tried: none reaches what its roles do not give", tried)
	}
}

// reaches tries what the user has no right to for the account of the moment.
func (d *doctor) reaches(ctx context.Context, target queue.ConnectConfig, u queue.User) (through []string, err error) {
	at, err := url.Parse(target.URL)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, rolesPatience)
	defer cancel()
	at.User = nil         // that of the commands
	quiet := logrus.New() // each refusal, which is what is hoped for, would be a warning
	quiet.SetOutput(io.Discard)
	target.URL, target.Log, target.Name = at.String(), quiet, "perennial-doctor"
	q, err := queue.Connect(target)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	for _, subject := range u.Forbidden(d.account) {
		answered, err := q.Answered(ctx, subject)
		if err != nil {
			return nil, err
		}
		if answered {
			through = append(through, subject)
		}
	}
	slices.Sort(through)
	return through, nil
}
