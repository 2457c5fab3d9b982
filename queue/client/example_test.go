package client_test

import (
	"context"
	"fmt"
	"time"

	"perennial/queue"
	"perennial/queue/client"
)

// The program publishes a command and waits for its result. If it runs again, for example after
// a crash, it buys nothing twice, because the command has the same ID.
func ExampleClient_Do() {
	q, err := queue.Connect(queue.ConnectConfig{URL: shared.url})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer q.Close()
	main, err := client.New(q, "main")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range 2 {
		end, err := main.Do(ctx, client.Order{
			ID: "restock-2026-11-21", DurationDays: 30, Items: []client.Item{{OfferCode: "off_us_dallas", Quantity: 2}},
			MaxTotalCents: new(int64(600)),
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(end.State, len(end.Lines), "proxies,", end.Totals.ChargedCents, "cents")
	}
	// Output:
	// delivered 2 proxies, 600 cents
	// delivered 2 proxies, 600 cents
}

// The program publishes many commands together, and waits for each by its id.
func ExampleClient_Publish() {
	q, err := queue.Connect(queue.ConnectConfig{URL: shared.url})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer q.Close()
	main, err := client.New(q, "main")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err = main.Publish(ctx,
		client.Renewal{ID: "first", ProxyIDs: []string{"px_us_1"}, DurationDays: 30},
		client.Renewal{ID: "second", ProxyIDs: []string{"px_us_2", "px_none"}, DurationDays: 30})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range []string{"first", "second"} {
		end, err := main.Wait(ctx, id)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(id, "is", end.State)
		for line, err := range main.Lines(ctx, end) {
			if err != nil {
				fmt.Println(err)
				return
			}
			fmt.Println("  ", line.ProxyID, line.State)
		}
	}
	// Output:
	// first is completed
	//    px_us_1 succeeded
	// second is partial
	//    px_none not_charged
	//    px_us_2 succeeded
}

// The program reads all events, and then continues after the last event that it has processed.
// It stores that event's position together with its own results.
func ExampleClient_Events() {
	q, err := queue.Connect(queue.ConnectConfig{URL: shared.url})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer q.Close()
	main, err := client.New(q, "main")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := main.Publish(ctx, client.Renewal{ID: "of-an-example", ProxyIDs: []string{"px_us_3"}, DurationDays: 30}); err != nil {
		fmt.Println(err)
		return
	}
	var kept client.Position
	for event, err := range main.Events(ctx, kept) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(event.Position.Seq, event.Type)
		if kept = event.Position; kept.Seq == 2 {
			break
		}
	}
	for event, err := range main.Events(ctx, kept, client.TypeFinished) {
		if err != nil {
			fmt.Println(err)
			return
		}
		end, err := event.Finished()
		if err != nil {
			fmt.Println(err)
			return
		}
		if end.CommandID == "of-an-example" {
			fmt.Println("it is", end.State)
			break
		}
	}
	// Output:
	// 1 ledger.opened
	// 2 runner.started
	// it is completed
}
