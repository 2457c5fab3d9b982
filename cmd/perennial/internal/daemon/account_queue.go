// The account's objects on NATS.

package daemon

import (
	"context"

	"perennial/queue"
	"perennial/queue/events"
	"perennial/queue/intake"
	"perennial/queue/letters"
	"perennial/queue/objects"
	"perennial/queue/positions"
	"perennial/queue/streams"
)

func (a *account) js() *queue.JetStream { return a.host.Queue.JetStream() }

func (a *account) events() events.Stream { return events.Of(a.js(), a.Name) }

func (a *account) letters() letters.Letters { return letters.Of(a.js(), a.Name) }

func (a *account) positions() positions.Positions { return positions.Of(a.js(), a.Name) }

// stored returns the NATS store through which standbys get the last listing.
func (a *account) stored() objects.Fleet { return objects.FleetOf(a.js(), a.Name) }

// streams returns the streams that the account requires.
func (a *account) streams() streams.Wanted {
	return streams.Wanted{Account: a.Name, Replicas: a.config.Replicas, Embedded: a.host.Embedded != nil}
}

// takeCommands opens the intake of the account's commands.
func (a *lifecycle) takeCommands(ctx context.Context) (*intake.Intake, error) {
	return intake.Open(ctx, a.js(), a.Name)
}
