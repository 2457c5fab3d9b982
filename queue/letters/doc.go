// Package letters keeps the commands of an account that could not be read, with the reason.
//
// It promises that a letter is on disk before its command is acknowledged, that one which is
// stored twice is kept once, and that a letter is at most four times as large as its command.
//
// It knows neither what a command says nor why it could not be read: the reason is handed in.
package letters
