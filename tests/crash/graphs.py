GRAPHS: tuple = ()
