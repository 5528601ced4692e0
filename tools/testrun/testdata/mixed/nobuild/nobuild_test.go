package nobuild

var number int = "text"
