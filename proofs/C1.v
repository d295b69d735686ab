(* C1: no online policy beats H_K in the worst case.

   The block adversary: items drawn from K + 1, each requested tau times in a row. Everything is about `run`
   of Paging.v: misses and insertions of schedules that obey the rules. *)

Require Import List Arith Bool Lia Factorial.
Require Import Paging.
Import ListNotations.

Definition ceil_div (a b : nat) : nat := (a + b - 1) / b.
Definition tau_stu (D L : nat) : nat := ceil_div L D + 1.
Definition tau_uts (D L : nat) : nat := ceil_div L D.

Lemma ceil_div_spec : forall L D, 0 < D -> L <= ceil_div L D * D.
Proof.
  intros L D HD. unfold ceil_div.
  pose proof (Nat.div_mod (L + D - 1) D ltac:(lia)) as E.
  pose proof (Nat.mod_upper_bound (L + D - 1) D ltac:(lia)) as B. nia.
Qed.

(* ---- 1. What a block costs ---- *)

(* Without an insertion, an item that is not held is missed each time it is asked for. *)
Lemma unloaded_misses : forall V K q l c c1 m,
  run V K c l = Some (c1, m, 0) -> held q c = false -> (forall p, In p (map fst l) -> p = q) -> m = length l.
Proof.
  induction l as [| [p a] r IH]; simpl; intros c c1 m H E A.
  - now injection H as _ <-.
  - destruct (update V K c p a) as [c2 |] eqn:U; [| discriminate ].
    destruct (run V K c2 r) as [[[c3 m3] z3] |] eqn:R; [| discriminate ].
    injection H as <- <- Z. destruct (enters a) as [| x e] eqn:N; [| simpl in Z; lia ].
    simpl in Z. subst z3. assert (p = q) as -> by (apply A; now left).
    assert (E2 : held q c2 = false).
    { unfold update in U. destruct (leave_all c (leaves a)) eqn:LV; [| discriminate ].
      rewrite N in U. simpl in U. injection U as <-.
      apply held_nIn. apply held_nIn in E. intros C. apply E. eapply leave_all_subset; eauto. }
    assert (miss q (if serves_first V then c else c2) = 1) as ->
      by (unfold miss; destruct (serves_first V); [ now rewrite E | now rewrite E2 ]).
    simpl. f_equal. eapply IH; eauto.
Qed.

(* serve_then_update: the first request of the block misses; then, whatever the policy does, in stream or pool. *)
Theorem block_cost : forall V K D L q l c c1 m z,
  serves_first V = true -> 0 < D ->
  map fst l = repeat q (tau_stu D L) -> held q c = false -> run V K c l = Some (c1, m, z) ->
  D + L <= charged D L m z.
Proof.
  intros V K D L q l c c1 m z HV HD Hl E H. unfold charged.
  destruct z as [| z].
  - apply (unloaded_misses V K q) in H; [| assumption | intros p Hp; rewrite Hl in Hp; now apply repeat_spec in Hp ].
    assert (length l = tau_stu D L) as Hlen by (rewrite <- (map_length fst l), Hl; apply repeat_length).
    pose proof (ceil_div_spec L D HD). unfold tau_stu in Hlen. nia.
  - assert (1 <= m); [| nia ].
    destruct l as [| [p a] r]; simpl in H.
    + injection H as _ _ C. discriminate.
    + unfold tau_stu in Hl. rewrite Nat.add_comm in Hl. simpl in Hl. injection Hl as -> _.
      destruct (update V K c q a) as [c2 |]; [| discriminate ].
      destruct (run V K c2 r) as [[[c3 m3] z3] |]; [| discriminate ].
      injection H as <- <- _. rewrite HV. unfold miss. rewrite E. lia.
Qed.

(* update_then_serve: tau = ceil(lambda) suffices for lambda; nothing is missed on loading at once. *)
Theorem block_cost_uts : forall V K D L q l c c1 m z,
  0 < D -> map fst l = repeat q (tau_uts D L) -> held q c = false -> run V K c l = Some (c1, m, z) ->
  L <= charged D L m z.
Proof.
  intros V K D L q l c c1 m z HD Hl E H. unfold charged. destruct z as [| z]; [| nia ].
  apply (unloaded_misses V K q) in H; [| assumption | intros p Hp; rewrite Hl in Hp; now apply repeat_spec in Hp ].
  assert (length l = tau_uts D L) as Hlen by (rewrite <- (map_length fst l), Hl; apply repeat_length).
  pose proof (ceil_div_spec L D HD). unfold tau_uts in Hlen. nia.
Qed.

(* ---- 2. All sequences of n blocks, each once: what a uniform draw costs a policy ---- *)

Fixpoint words (n k : nat) : list (list nat) :=
  match n with 0 => [[]] | S n' => flat_map (fun x => map (cons x) (words n' k)) (seq 0 k) end.

Definition total {A} (f : A -> nat) (l : list A) : nat := list_sum (map f l).

Definition play (V : variant) (K tau : nat) (pol : list nat -> action) (h c bs : list nat) :=
  run V K c (acts pol h (blocks tau bs)).

Definition alg_cost (V : variant) (K tau D L : nat) (pol : list nat -> action) (h c bs : list nat) : nat :=
  match play V K tau pol h c bs with Some (_, m, z) => charged D L m z | None => 0 end.

(* A policy that obeys the rules on every sequence of blocks over 0..K, started with h requested and c held. *)
Definition obeys (V : variant) (K tau : nat) (pol : list nat -> action) (h c : list nat) : Prop :=
  forall bs, (forall x, In x bs -> x <= K) -> play V K tau pol h c bs <> None.

Lemma total_app : forall A (f : A -> nat) l1 l2, total f (l1 ++ l2) = total f l1 + total f l2.
Proof. intros. unfold total. now rewrite map_app, list_sum_app. Qed.

Lemma total_flat_map : forall A B (f : B -> nat) (g : A -> list B) l,
  total f (flat_map g l) = total (fun x => total f (g x)) l.
Proof.
  induction l as [| x r IH]; simpl; [ reflexivity |]. rewrite total_app, IH. reflexivity.
Qed.

Lemma total_map : forall A B (f : B -> nat) (g : A -> B) l, total f (map g l) = total (fun x => f (g x)) l.
Proof. intros. unfold total. now rewrite map_map. Qed.

Lemma total_le : forall A (f g : A -> nat) l, (forall x, In x l -> f x <= g x) -> total f l <= total g l.
Proof.
  induction l as [| x r IH]; unfold total in *; simpl; intros H; [ lia |].
  specialize (H x (or_introl eq_refl)) as H1.
  assert (forall y, In y r -> f y <= g y) as H2 by auto. specialize (IH H2). lia.
Qed.

Lemma total_ext : forall A (f g : A -> nat) l, (forall x, In x l -> f x = g x) -> total f l = total g l.
Proof.
  intros A f g l H. apply Nat.le_antisymm; apply total_le; intros x Hx; rewrite (H x Hx); lia.
Qed.

Lemma total_plus : forall A (f g : A -> nat) l, total (fun x => f x + g x) l = total f l + total g l.
Proof. induction l as [| x r IH]; unfold total in *; simpl; lia. Qed.

Lemma total_scale : forall A (f : A -> nat) k l, total (fun x => k * f x) l = k * total f l.
Proof. induction l as [| x r IH]; unfold total in *; simpl; lia. Qed.

Lemma total_const : forall A k (l : list A), total (fun _ => k) l = length l * k.
Proof. induction l as [| x r IH]; unfold total in *; simpl; lia. Qed.

Lemma words_length : forall n k, length (words n k) = k ^ n.
Proof.
  induction n as [| n IH]; intros k; [ reflexivity |]. simpl.
  assert (forall l : list nat, length (flat_map (fun x => map (cons x) (words n k)) l) = length l * k ^ n) as E.
  { induction l as [| x r IHl]; simpl; [ reflexivity |]. rewrite app_length, map_length, IH, IHl. lia. }
  rewrite E, seq_length. reflexivity.
Qed.

Lemma words_In : forall n k w, In w (words n k) -> forall x, In x w -> x < k.
Proof.
  induction n as [| n IH]; simpl; intros k w H x Hx.
  - destruct H as [<- | []]. destruct Hx.
  - apply in_flat_map in H as [y [Hy H]]. apply in_map_iff in H as [w' [<- Hw]].
    apply in_seq in Hy. destruct Hx as [<- | Hx]; [ lia | eauto ].
Qed.

Lemma total_words_S : forall n k (f : list nat -> nat),
  total f (words (S n) k) = total (fun x => total (fun w => f (x :: w)) (words n k)) (seq 0 k).
Proof.
  intros. cbn [words]. rewrite total_flat_map. apply total_ext. intros. now rewrite total_map.
Qed.

Lemma total_filter : forall A (b : A -> bool) l, total (fun x => if b x then 1 else 0) l = length (filter b l).
Proof.
  induction l as [| x r IH]; unfold total in *; simpl; [ reflexivity |]. destruct (b x); simpl; lia.
Qed.

(* What one block adds, and what the policy goes on with. *)
Lemma play_cons : forall V K tau pol h c x bs,
  play V K tau pol h c (x :: bs) =
  match run V K c (acts pol h (repeat x tau)) with
  | None => None
  | Some (c1, m1, z1) =>
      match play V K tau pol (rev (repeat x tau) ++ h) c1 bs with
      | None => None
      | Some (c2, m2, z2) => Some (c2, m1 + m2, z1 + z2)
      end
  end.
Proof. intros. unfold play. simpl. now rewrite acts_app, run_app. Qed.

(* The price of the least that a block costs when its first request misses: D + L, or L, as proved above. *)
Definition block_bound (V : variant) (K tau D L B : nat) : Prop :=
  forall q l c c1 m z, map fst l = repeat q tau -> held q c = false -> run V K c l = Some (c1, m, z) ->
  B <= charged D L m z.

Lemma average_block : forall V K tau D L B, block_bound V K tau D L B ->
  forall n pol h c, good K c -> obeys V K tau pol h c ->
  n * B * (K + 1) ^ n <= (K + 1) * total (alg_cost V K tau D L pol h c) (words n (K + 1)).
Proof.
  intros V K tau D L B HB. induction n as [| n IH]; intros pol h c G O; [ simpl; lia |].
  rewrite total_words_S.
  set (P := (K + 1) ^ n).
  (* per first item x: at least B per continuation if x is missing, and the induction hypothesis after it *)
  assert (forall x, In x (seq 0 (K + 1)) ->
     (if negb (held x c) then 1 else 0) * (B * ((K + 1) * P)) + n * B * P
     <= (K + 1) * total (fun w => alg_cost V K tau D L pol h c (x :: w)) (words n (K + 1))) as Hx.
  { intros x Hx. apply in_seq in Hx.
    destruct (run V K c (acts pol h (repeat x tau))) as [[[c1 m1] z1] |] eqn:R.
    2:{ exfalso. apply (O [x]); [ intros y [<- | []]; lia |]. rewrite play_cons, R. reflexivity. }
    assert (O1 : obeys V K tau pol (rev (repeat x tau) ++ h) c1).
    { intros bs Hbs C. apply (O (x :: bs)); [ intros y [<- | Hy]; [ lia | auto ] |].
      rewrite play_cons, R, C. reflexivity. }
    specialize (IH pol _ c1 (run_good _ _ _ _ _ _ _ R G) O1). fold P in IH.
    rewrite (total_ext _ _ (fun w => charged D L m1 z1 + alg_cost V K tau D L pol (rev (repeat x tau) ++ h) c1 w)).
    2:{ intros w Hw. unfold alg_cost. rewrite play_cons, R.
        destruct (play V K tau pol (rev (repeat x tau) ++ h) c1 w) as [[[c2 m2] z2] |] eqn:R2.
        - unfold charged. lia.
        - exfalso. apply (O1 w); [| assumption ]. intros y Hy. pose proof (words_In _ _ _ Hw y Hy). lia. }
    rewrite total_plus, total_const, words_length. fold P.
    destruct (held x c) eqn:E; simpl negb; cbv iota; [ lia |].
    assert (B <= charged D L m1 z1) as C by (eapply HB; [| eassumption | eassumption ]; apply acts_fst).
    apply (Nat.mul_le_mono_l _ _ ((K + 1) * P)) in C. lia. }
  apply total_le in Hx. rewrite total_plus, total_const, seq_length, total_scale in Hx.
  rewrite (total_ext _ _ (fun x => (B * ((K + 1) * P)) * (if negb (held x c) then 1 else 0))) in Hx by (intros; lia).
  rewrite total_scale, total_filter in Hx.
  pose proof (one_is_missing K c G) as M. unfold missing in M. replace (S K) with (K + 1) in M by lia.
  rewrite Nat.pow_succ_r' . fold P.
  apply (Nat.mul_le_mono_l _ _ (B * ((K + 1) * P))) in M. lia.
Qed.

Theorem average_block_stu : forall V K D L n pol,
  serves_first V = true -> 0 < D -> obeys V K (tau_stu D L) pol [] [] ->
  n * (D + L) * (K + 1) ^ n
  <= (K + 1) * total (alg_cost V K (tau_stu D L) D L pol [] []) (words n (K + 1)).
Proof.
  intros. apply average_block; [| split; [ constructor | simpl; lia ] | assumption ].
  intros q l c c1 m z Hl E R. eapply block_cost; eauto.
Qed.

Theorem average_block_uts : forall V K D L n pol,
  0 < D -> obeys V K (tau_uts D L) pol [] [] ->
  n * L * (K + 1) ^ n
  <= (K + 1) * total (alg_cost V K (tau_uts D L) D L pol [] []) (words n (K + 1)).
Proof.
  intros. apply average_block; [| split; [ constructor | simpl; lia ] | assumption ].
  intros q l c c1 m z Hl E R. eapply block_cost_uts; eauto.
Qed.

(* ---- 3. Phases: what an offline schedule pays ---- *)

(* New phases opened by bs, when the present phase has asked for the items seen so far: a phase has K distinct
   items, the (K + 1)-th opens the next. *)
Fixpoint openings (K : nat) (seen bs : list nat) : nat :=
  match bs with
  | [] => 0
  | x :: r => if held x seen then openings K seen r
              else if length seen <? K then openings K (x :: seen) r
              else S (openings K [x] r)
  end.

(* The item that opens the next phase, or, if none does, one that the present phase never asks for. *)
Fixpoint opener (K : nat) (seen bs : list nat) : nat :=
  match bs with
  | [] => hd 0 (missing K seen)
  | x :: r => if held x seen then opener K seen r
              else if length seen <? K then opener K (x :: seen) r
              else x
  end.

(* Load on a miss; when the cache is full, in place of the item that opens the next phase. *)
Definition phase_action (K : nat) (c : list nat) (x : nat) (rest : list nat) : action :=
  if held x c then idle
  else if length c <? K then Act [] [x]
  else Act [opener K [x] rest] [x].

Definition after (K : nat) (c : list nat) (x : nat) (rest : list nat) : list nat :=
  if held x c then c
  else if length c <? K then x :: c
  else x :: drop (opener K [x] rest) c.

Fixpoint phase_schedule (K tau : nat) (c bs : list nat) : list (nat * action) :=
  match bs with
  | [] => []
  | x :: r => (x, phase_action K c x r) :: repeat (x, idle) (tau - 1) ++ phase_schedule K tau (after K c x r) r
  end.

Lemma phase_schedule_requests : forall K tau bs c, 1 <= tau ->
  map fst (phase_schedule K tau c bs) = blocks tau bs.
Proof.
  intros K tau bs; induction bs as [| x r IH]; intros c H; [ reflexivity |].
  cbn [phase_schedule blocks map fst]. rewrite map_app, IH by assumption.
  destruct tau as [| t]; [ lia |]. replace (S t - 1) with t by lia.
  simpl. f_equal. f_equal. clear. induction t; simpl; congruence.
Qed.

Lemma idle_run : forall V K x n c, In x c -> run V K c (repeat (x, idle) n) = Some (c, 0, 0).
Proof.
  intros V K x n c H. induction n as [| n IH]; [ reflexivity |].
  simpl. unfold update. simpl. rewrite IH. unfold miss. apply held_In in H.
  destruct (serves_first V); rewrite H; reflexivity.
Qed.

Definition paid_miss (V : variant) (x : nat) (c : list nat) : nat := if serves_first V then miss x c else 0.

(* One block of the schedule: the rules hold, and it misses and loads once if it does not hold its item. *)
Lemma phase_block : forall V K tau c x r rest,
  1 <= K -> good K c ->
  (held x c = false -> length c = K -> In (opener K [x] r) c) ->
  run V K c ((x, phase_action K c x r) :: repeat (x, idle) (tau - 1) ++ rest) =
  match run V K (after K c x r) rest with
  | None => None
  | Some (c2, m, z) => Some (c2, paid_miss V x c + m, miss x c + z)
  end.
Proof.
  intros V K tau c x r rest HK G Hop.
  assert (In x (after K c x r)) as Hin.
  { unfold after. destruct (held x c) eqn:E; [ now apply held_In |]. destruct (length c <? K); now left. }
  assert (update V K c x (phase_action K c x r) = Some (after K c x r)) as U.
  { unfold update, phase_action, after.
    destruct (held x c) eqn:E; [ reflexivity |].
    destruct (length c <? K) eqn:E2.
    - apply Nat.ltb_lt in E2. cbn [leaves enters leave_all enter_all].
      rewrite E, Nat.eqb_refl, andb_false_r.
      assert (S (length c) <=? K = true) as -> by (apply Nat.leb_le; lia). reflexivity.
    - apply Nat.ltb_ge in E2. destruct G as [G1 G2].
      assert (length c = K) as EL by lia. specialize (Hop eq_refl EL).
      cbn [leaves enters leave_all].
      assert (held (opener K [x] r) c = true) as -> by (now apply held_In).
      cbn [enter_all].
      assert (held x (drop (opener K [x] r) c) = false) as ->.
      { apply held_nIn. apply held_nIn in E. intros C. apply E. eapply drop_In; eauto. }
      rewrite Nat.eqb_refl, andb_false_r.
      pose proof (drop_length _ _ Hop) as DL.
      assert (S (length (drop (opener K [x] r) c)) <=? K = true) as -> by (apply Nat.leb_le; lia). reflexivity. }
  cbn [run]. rewrite U, run_app, idle_run by assumption.
  destruct (run V K (after K c x r) rest) as [[[c2 m] z] |]; [| reflexivity ].
  assert (length (enters (phase_action K c x r)) = miss x c) as ->.
  { unfold phase_action, miss. destruct (held x c); [ reflexivity |]. destruct (length c <? K); reflexivity. }
  assert (miss x (if serves_first V then c else after K c x r) = paid_miss V x c) as ->.
  { unfold paid_miss. destruct (serves_first V); [ reflexivity |].
    unfold miss. apply held_In in Hin. now rewrite Hin. }
  reflexivity.
Qed.

Lemma opener_fresh : forall K bs seen, NoDup seen -> length seen <= K -> (forall x, In x bs -> x <= K) ->
  ~ In (opener K seen bs) seen /\ opener K seen bs <= K.
Proof.
  intros K bs; induction bs as [| x r IH]; intros seen N Len R; cbn [opener].
  - pose proof (one_is_missing K seen (conj N Len)) as M.
    destruct (missing K seen) as [| i l] eqn:E; [ simpl in M; lia |].
    assert (In i (missing K seen)) as Hi by (rewrite E; now left).
    apply missing_In in Hi. simpl. tauto.
  - destruct (held x seen) eqn:E.
    + apply IH; auto. intros; apply R; now right.
    + destruct (length seen <? K) eqn:E2.
      * apply Nat.ltb_lt in E2. apply held_nIn in E.
        destruct (IH (x :: seen)) as [A B]; [ now constructor | simpl; lia | intros; apply R; now right |].
        split; [ intros C; apply A; now right | assumption ].
      * split; [ now apply held_nIn | apply R; now left ].
Qed.

(* K distinct items of 0..K, one of them lacking: every other one is there. *)
Lemma all_but_one : forall K c o i, good K c -> length c = K -> (forall x, In x c -> x <= K) ->
  ~ In o c -> o <= K -> i <= K -> i <> o -> In i c.
Proof.
  intros K c o i [N _] Len R Ho HoK Hi Ne.
  assert (incl (seq 0 (S K)) (o :: c)) as I.
  { apply NoDup_length_incl; [ constructor; assumption | simpl; rewrite seq_length; lia |].
    intros x [<- | Hx]; apply in_seq; [ lia | specialize (R _ Hx); lia ]. }
  assert (In i (o :: c)) as [C | C]; [ apply I; apply in_seq; lia | congruence | assumption ].
Qed.

(* A full cache that lacks just the item opening the next phase: one miss and one load per opening. *)
Lemma full_phases : forall V K tau bs c seen,
  1 <= K -> good K c -> length c = K -> (forall x, In x c -> x <= K) -> (forall x, In x bs -> x <= K) ->
  NoDup seen -> length seen <= K -> incl seen c -> ~ In (opener K seen bs) c ->
  exists c1, run V K c (phase_schedule K tau c bs) =
    Some (c1, if serves_first V then openings K seen bs else 0, openings K seen bs).
Proof.
  intros V K tau bs; induction bs as [| x r IH]; intros c seen HK G Len Rc Rb N Ls I Op.
  - exists c. simpl. destruct (serves_first V); reflexivity.
  - assert (Rr : forall y, In y r -> y <= K) by (intros; apply Rb; now right).
    assert (Rx : x <= K) by (apply Rb; now left).
    cbn [phase_schedule]. cbn [opener openings] in *.
    assert (Hop : held x c = false -> length c = K -> In (opener K [x] r) c).
    { intros E _. apply held_nIn in E.
      destruct (opener_fresh K r [x]) as [A B]; [ repeat constructor; simpl; tauto | simpl; lia | assumption |].
      apply (all_but_one K c x); auto. intros C. apply A. now left. }
    rewrite phase_block by assumption.
    destruct (held x seen) eqn:Es.
    + assert (held x c = true) as Ec by (apply held_In; apply I; now apply held_In).
      unfold after, paid_miss, miss. rewrite Ec. fold (phase_schedule K tau).
      destruct (IH c seen) as [c1 ->]; auto. exists c1. destruct (serves_first V); reflexivity.
    + destruct (length seen <? K) eqn:El.
      * apply Nat.ltb_lt in El. apply held_nIn in Es.
        assert (NoDup (x :: seen)) as N2 by now constructor.
        destruct (opener_fresh K r (x :: seen)) as [A B]; [ assumption | simpl; lia | assumption |].
        assert (In x c) as Hx by (apply (all_but_one K c (opener K (x :: seen) r)); auto; intros C; apply A; now left).
        assert (held x c = true) as Ec by now apply held_In.
        unfold after, paid_miss, miss. rewrite Ec.
        destruct (IH c (x :: seen)) as [c1 ->]; auto.
        { intros y [<- | Hy]; auto. }
        exists c1. destruct (serves_first V); reflexivity.
      * assert (held x c = false) as Ec by now apply held_nIn.
        assert (length c <? K = false) as Ef by (apply Nat.ltb_ge; lia).
        unfold after, paid_miss, miss. rewrite Ec, Ef.
        specialize (Hop Ec Len).
        pose proof (drop_length _ _ Hop) as DL. destruct G as [G1 G2].
        destruct (opener_fresh K r [x]) as [A B]; [ repeat constructor; simpl; tauto | simpl; lia | assumption |].
        destruct (IH (x :: drop (opener K [x] r) c) [x]) as [c1 ->]; auto.
        -- split; [ constructor | simpl; lia ].
           ++ apply held_nIn in Ec. intros C. apply Ec. eapply drop_In; eauto.
           ++ now apply drop_NoDup.
        -- simpl; lia.
        -- intros y [<- | Hy]; [ assumption | apply Rc; eapply drop_In; eauto ].
        -- repeat constructor; simpl; tauto.
        -- intros y [<- | []]. now left.
        -- intros [C | C]; [ apply A; now left | now apply drop_gone in C ].
        -- exists c1. destruct (serves_first V); reflexivity.
Qed.

Lemma filling_phases : forall V K tau bs c,
  1 <= K -> good K c -> (forall x, In x c -> x <= K) -> (forall x, In x bs -> x <= K) ->
  exists c1 z, run V K c (phase_schedule K tau c bs) = Some (c1, if serves_first V then z else 0, z) /\
    z <= (K - length c) + openings K c bs.
Proof.
  intros V K tau bs; induction bs as [| x r IH]; intros c HK G Rc Rb.
  - exists c, 0. simpl. split; [ destruct (serves_first V); reflexivity | lia ].
  - destruct (Nat.eq_dec (length c) K) as [Len | Len].
    + destruct G as [G1 G2]. destruct (opener_fresh K (x :: r) c G1 G2 Rb) as [A _].
      destruct (full_phases V K tau (x :: r) c c) as [c1 E]; auto using incl_refl; [ split; assumption |].
      exists c1, (openings K c (x :: r)). split; [ assumption | lia ].
    + assert (Rr : forall y, In y r -> y <= K) by (intros; apply Rb; now right).
      assert (Rx : x <= K) by (apply Rb; now left).
      destruct G as [G1 G2].
      cbn [phase_schedule openings]. rewrite phase_block; [| assumption | split; assumption | intros; lia ].
      assert (length c <? K = true) as Ef by (apply Nat.ltb_lt; lia).
      unfold after, paid_miss, miss. rewrite Ef.
      destruct (held x c) eqn:Ec.
      * destruct (IH c) as [c1 [z [-> Hz]]]; auto; [ split; assumption |].
        exists c1, z. split; [ destruct (serves_first V); reflexivity | assumption ].
      * apply held_nIn in Ec.
        destruct (IH (x :: c)) as [c1 [z [-> Hz]]]; auto.
        { split; [ now constructor | simpl; lia ]. }
        { intros y [<- | Hy]; auto. }
        exists c1, (S z). split; [ destruct (serves_first V); reflexivity | simpl in Hz; lia ].
Qed.

(* For any blocks over K + 1 items the schedule obeys the rules (also in stream) and pays at most D + L per phase
   opened, L in update_then_serve, beside the K items of the first phase. *)
Theorem phase_cost : forall V K tau D L bs, 1 <= K -> 1 <= tau -> (forall x, In x bs -> x <= K) ->
  exists c1 m z, run V K [] (phase_schedule K tau [] bs) = Some (c1, m, z) /\
    map fst (phase_schedule K tau [] bs) = blocks tau bs /\
    charged D L m z <= (if serves_first V then D + L else L) * (K + openings K [] bs) /\
    free_fill K D L m z <= (if serves_first V then D + L else L) * openings K [] bs
      + (if serves_first V then D else 0) * K.
Proof.
  intros V K tau D L bs HK Ht Rb.
  destruct (filling_phases V K tau bs []) as [c1 [z [E Hz]]]; auto.
  { split; [ constructor | simpl; lia ]. }
  { intros x []. }
  simpl length in Hz.
  exists c1, (if serves_first V then z else 0), z. repeat split; auto using phase_schedule_requests.
  - unfold charged. destruct (serves_first V); nia.
  - unfold free_fill. assert (z - K <= openings K [] bs) as Hz2 by lia.
    destruct (serves_first V); nia.
Qed.

(* A phase that ends has asked for K distinct items, so it is at least K blocks long. *)
Theorem phases_are_long : forall K bs seen, length seen <= K -> K * openings K seen bs <= length bs + length seen.
Proof.
  intros K bs; induction bs as [| x r IH]; intros seen H; cbn [openings length]; [ lia |].
  destruct (held x seen); [ specialize (IH seen H); lia |].
  destruct (length seen <? K) eqn:E.
  - apply Nat.ltb_lt in E. specialize (IH (x :: seen)). simpl in IH. lia.
  - apply Nat.ltb_ge in E. destruct K as [| K]; [ lia |]. specialize (IH [x]). simpl length in IH. nia.
Qed.

(* ---- 4. How many phases a uniform draw opens: the coupon collector, in whole numbers ---- *)

(* K! (1 + 1/2 + ... + 1/j): whole for j <= K. *)
Fixpoint harmonic (K j : nat) : nat := match j with 0 => 0 | S i => harmonic K i + fact K / j end.

(* Each term is exact, so harmonic K K = K! H_K. *)
Theorem harmonic_exact : forall K j, 1 <= j <= K -> j * (harmonic K j - harmonic K (j - 1)) = fact K.
Proof.
  intros K j H. destruct j as [| i]; [ lia |]. cbn [harmonic]. replace (S i - 1) with i by lia.
  rewrite Nat.add_comm, Nat.add_sub.
  assert (exists k, fact K = k * S i) as [k ->].
  { induction K as [| K IH]; [ lia |].
    destruct (Nat.eq_dec (S K) (S i)) as [E | E].
    - exists (fact K). rewrite <- E. simpl. lia.
    - destruct IH as [k Hk]; [ lia |]. exists (S K * k). cbn [fact]. nia. }
  rewrite Nat.div_mul by lia. lia.
Qed.

(* Blocks until the next opening, times K!, when d items have been seen. *)
Definition rest_of_phase (K d : nat) : nat := (K + 1) * harmonic K (K + 1 - d).

Lemma rest_step : forall K d, 1 <= d <= K ->
  (K + 1 - d) * rest_of_phase K d <= (K + 1 - d) * rest_of_phase K (S d) + (K + 1) * fact K.
Proof.
  intros K d H. unfold rest_of_phase. replace (K + 1 - d) with (S (K - d)) by lia.
  replace (K + 1 - S d) with (K - d) by lia. cbn [harmonic].
  pose proof (Nat.mul_div_le (fact K) (S (K - d)) ltac:(lia)). nia.
Qed.

Lemma harmonic_mono : forall K i j, i <= j -> harmonic K i <= harmonic K j.
Proof. intros K i j H. induction H as [| j H IH]; [ lia | cbn [harmonic]; lia ]. Qed.

Lemma rest_le : forall K d, 1 <= d -> rest_of_phase K d <= rest_of_phase K 1.
Proof. intros. unfold rest_of_phase. apply Nat.mul_le_mono_l. apply harmonic_mono. lia. Qed.

Lemma count_held : forall K seen, NoDup seen -> (forall x, In x seen -> x <= K) ->
  length (filter (fun x => held x seen) (seq 0 (K + 1))) = length seen.
Proof.
  intros K seen N R. apply Nat.le_antisymm.
  - apply NoDup_incl_length; [ apply NoDup_filter, seq_NoDup |].
    intros x Hx. apply filter_In in Hx as [_ Hx]. now apply held_In.
  - apply NoDup_incl_length; [ assumption |].
    intros x Hx. apply filter_In. split; [ apply in_seq; specialize (R _ Hx); lia | now apply held_In ].
Qed.

Lemma total_split : forall A (b : A -> bool) (f g : A -> nat) l p q,
  (forall x, In x l -> b x = true -> f x <= p) -> (forall x, In x l -> b x = false -> f x <= q) ->
  total f l <= length (filter b l) * p + (length l - length (filter b l)) * q.
Proof.
  induction l as [| x r IH]; intros p q H1 H2; unfold total in *; [ simpl; lia |].
  assert (length (filter b r) <= length r) as Lr
    by (clear; induction r as [| y s IHs]; simpl; [ lia | destruct (b y); simpl; lia ]).
  specialize (IH p q (fun y Hy => H1 y (or_intror Hy)) (fun y Hy => H2 y (or_intror Hy))).
  cbn [map list_sum fold_right filter length] in *. unfold list_sum in *. destruct (b x) eqn:E.
  - specialize (H1 x (or_introl eq_refl) E). simpl length. nia.
  - specialize (H2 x (or_introl eq_refl) E). replace (S (length r) - length (filter b r)) with
      (S (length r - length (filter b r))) by lia. nia.
Qed.

(* With d items seen, n further blocks open at most (n K! + rest 1 - rest d) / rest 1 phases on average. *)
Lemma average_openings : forall K, 1 <= K -> forall n seen,
  NoDup seen -> (forall x, In x seen -> x <= K) -> 1 <= length seen <= K ->
  rest_of_phase K 1 * total (openings K seen) (words n (K + 1)) + rest_of_phase K (length seen) * (K + 1) ^ n
  <= (K + 1) ^ n * (n * fact K + rest_of_phase K 1).
Proof.
  intros K HK. induction n as [| n IH]; intros seen N R Len.
  - pose proof (rest_le K (length seen) ltac:(lia)). unfold total. simpl. lia.
  - rewrite total_words_S, Nat.pow_succ_r'.
    set (P := (K + 1) ^ n) in *. set (R1 := rest_of_phase K 1) in *. set (d := length seen) in *.
    assert (HP : R1 * P <= R1 * P) by lia.
    (* an item seen before changes nothing *)
    pose (f := fun x => R1 * total (fun w => openings K seen (x :: w)) (words n (K + 1))).
    assert (Hseen : forall x, held x seen = true ->
              f x + rest_of_phase K d * P <= P * (n * fact K + R1)).
    { intros x Hx. unfold f. rewrite (total_ext _ _ (openings K seen)).
      - apply IH; assumption.
      - intros w _. cbn [openings]. now rewrite Hx. }
    assert (Hd : rest_of_phase K d <= R1) by (apply rest_le; lia).
    assert (Cnt : length (filter (fun x => held x seen) (seq 0 (K + 1))) = d) by now apply count_held.
    rewrite <- total_scale. change (total f (seq 0 (K + 1)) + rest_of_phase K d * ((K + 1) * P)
      <= (K + 1) * P * (S n * fact K + R1)).
    destruct (Nat.eq_dec d K) as [E | E].
    + assert (Hnew : forall x, In x (seq 0 (K + 1)) -> held x seen = false -> f x <= P * (n * fact K + R1)).
      { intros x Hx Hf. apply in_seq in Hx. unfold f.
        rewrite (total_ext _ _ (fun w => 1 + openings K [x] w)).
        - rewrite total_plus, total_const, words_length. fold P.
          specialize (IH [x]). simpl length in IH.
          assert (NoDup [x]) as N1 by (repeat constructor; simpl; tauto).
          assert (forall y, In y [x] -> y <= K) as Rx by (intros y [<- | []]; lia).
          specialize (IH N1 Rx ltac:(lia)). fold R1 in IH. nia.
        - intros w _. cbn [openings]. rewrite Hf.
          assert (length seen <? K = false) as -> by (apply Nat.ltb_ge; fold d; lia). reflexivity. }
      pose proof (total_split _ (fun x => held x seen) f f (seq 0 (K + 1))
        (P * (n * fact K + R1) - rest_of_phase K d * P) (P * (n * fact K + R1))
        (fun x Hx Hb => ltac:(specialize (Hseen x Hb); lia)) Hnew) as T.
      rewrite Cnt, seq_length, E in T. rewrite E in *.
      assert (rest_of_phase K K = (K + 1) * fact K) as RK.
      { unfold rest_of_phase. replace (K + 1 - K) with 1 by lia. cbn [harmonic].
        rewrite Nat.div_1_r. lia. }
      rewrite RK in *. assert (rest_of_phase K K <= R1) by (rewrite RK; assumption).
      replace (K + 1 - K) with 1 in T by lia. 
      set (X := P * (n * fact K + R1)) in *.
      assert ((K + 1) * fact K * P <= X) as HX by (unfold X; nia).
      assert (K * (X - (K + 1) * fact K * P) = K * X - K * ((K + 1) * fact K * P)) as E2 by (apply Nat.mul_sub_distr_l).
      rewrite E2 in T.
      assert (K * ((K + 1) * fact K * P) <= K * X) by (apply Nat.mul_le_mono_l; assumption).
      assert ((K + 1) * P * (S n * fact K + R1) = (K + 1) * X + (K + 1) * P * fact K) as -> by (unfold X; nia).
      nia.
    + assert (Hnew : forall x, In x (seq 0 (K + 1)) -> held x seen = false ->
                f x <= P * (n * fact K + R1) - rest_of_phase K (S d) * P).
      { intros x Hx Hf. apply in_seq in Hx. unfold f.
        rewrite (total_ext _ _ (openings K (x :: seen))).
        - assert (NoDup (x :: seen)) as N1 by (constructor; [ now apply held_nIn | assumption ]).
          assert (forall y, In y (x :: seen) -> y <= K) as Rx by (intros y [<- | Hy]; [ lia | auto ]).
          specialize (IH (x :: seen) N1 Rx). simpl length in IH. fold d in IH.
          specialize (IH ltac:(lia)). lia.
        - intros w _. cbn [openings]. rewrite Hf.
          assert (length seen <? K = true) as -> by (apply Nat.ltb_lt; fold d; lia). reflexivity. }
      pose proof (total_split _ (fun x => held x seen) f f (seq 0 (K + 1))
        (P * (n * fact K + R1) - rest_of_phase K d * P) (P * (n * fact K + R1) - rest_of_phase K (S d) * P)
        (fun x Hx Hb => ltac:(specialize (Hseen x Hb); lia)) Hnew) as T.
      rewrite Cnt, seq_length in T.
      pose proof (rest_step K d ltac:(lia)) as St.
      assert (Hd1 : rest_of_phase K (S d) <= R1) by (apply rest_le; lia).
      set (X := P * (n * fact K + R1)) in *. set (r0 := rest_of_phase K d) in *. set (r1 := rest_of_phase K (S d)) in *.
      assert (r0 * P <= X) as B0 by (unfold X; nia). assert (r1 * P <= X) as B1 by (unfold X; nia).
      rewrite !Nat.mul_sub_distr_l in T.
      assert (d * (r0 * P) <= d * X) by (apply Nat.mul_le_mono_l; assumption).
      assert ((K + 1 - d) * (r1 * P) <= (K + 1 - d) * X) by (apply Nat.mul_le_mono_l; assumption).
      apply (Nat.mul_le_mono_l _ _ P) in St.
      remember (K + 1 - d) as e. assert (K + 1 = d + e) as Ke by lia.
      assert ((K + 1) * P * (S n * fact K + R1) = (d + e) * X + (K + 1) * P * fact K) as -> by (unfold X; rewrite <- Ke; nia).
      rewrite Ke in *. nia.
Qed.

(* n blocks open on average at most n / ((K + 1) H_K) phases. *)
Theorem coupon_collector : forall K n, 1 <= K ->
  (K + 1) * harmonic K K * total (openings K []) (words n (K + 1)) <= n * fact K * (K + 1) ^ n.
Proof.
  intros K n HK. destruct n as [| n]; [ unfold total; simpl; lia |].
  rewrite total_words_S, Nat.pow_succ_r', <- total_scale.
  apply Nat.le_trans with (total (fun _ => S n * fact K * (K + 1) ^ n) (seq 0 (K + 1)));
    [| rewrite total_const, seq_length; lia ].
  apply total_le. intros x Hx. apply in_seq in Hx.
  rewrite (total_ext _ _ (openings K [x])).
  - pose proof (average_openings K HK n [x]) as A. simpl length in A.
    assert (NoDup [x]) as N1 by (repeat constructor; simpl; tauto).
    assert (forall y, In y [x] -> y <= K) as Rx by (intros y [<- | []]; lia).
    specialize (A N1 Rx ltac:(lia)).
    assert (rest_of_phase K 1 = (K + 1) * harmonic K K) as E by (unfold rest_of_phase; now replace (K + 1 - 1) with K by lia).
    rewrite E in A. nia.
  - intros w _. cbn [openings]. simpl held. destruct K; [ lia | reflexivity ].
Qed.

(* ---- 5. Together ---- *)

Definition tau_of (V : variant) (D L : nat) : nat := if serves_first V then tau_stu D L else tau_uts D L.
Definition per_phase (V : variant) (D L : nat) : nat := if serves_first V then D + L else L.

(* The policy pays as free fill has it, the schedule as charged fill has it: the weakest reading of either. *)
Definition alg_free (V : variant) (K D L : nat) (pol : list nat -> action) (bs : list nat) : nat :=
  match play V K (tau_of V D L) pol [] [] bs with Some (_, m, z) => free_fill K D L m z | None => 0 end.

Definition phases_charged (V : variant) (K D L : nat) (bs : list nat) : nat :=
  match run V K [] (phase_schedule K (tau_of V D L) [] bs) with Some (_, m, z) => charged D L m z | None => 0 end.

Lemma tau_positive : forall V D L, 0 < D -> 0 < per_phase V D L -> 1 <= tau_of V D L.
Proof.
  intros V D L HD HB. unfold tau_of, per_phase, tau_stu, tau_uts in *.
  destruct (serves_first V); [ lia |]. pose proof (ceil_div_spec L D HD). nia.
Qed.

Lemma alg_average : forall V K D L n pol, 0 < D -> obeys V K (tau_of V D L) pol [] [] ->
  n * per_phase V D L * (K + 1) ^ n
  <= (K + 1) * (total (alg_free V K D L pol) (words n (K + 1)) + (K + 1) ^ n * (K * L)).
Proof.
  intros V K D L n pol HD HO.
  assert (total (alg_cost V K (tau_of V D L) D L pol [] []) (words n (K + 1))
          <= total (alg_free V K D L pol) (words n (K + 1)) + (K + 1) ^ n * (K * L)) as C.
  { rewrite <- (words_length n (K + 1)), <- total_const, <- total_plus.
    apply total_le. intros w _. unfold alg_cost, alg_free.
    destruct (play V K (tau_of V D L) pol [] [] w) as [[[c m] z] |]; [| lia ].
    unfold charged, free_fill. assert (z * L <= (z - K) * L + K * L) by nia. lia. }
  apply (Nat.mul_le_mono_l _ _ (K + 1)) in C. eapply Nat.le_trans; [| exact C ].
  unfold tau_of, per_phase in *. destruct (serves_first V) eqn:EV.
  - now apply average_block_stu.
  - now apply average_block_uts.
Qed.

Lemma opt_average : forall K B e (opt : list nat -> nat) n, 1 <= K ->
  (forall w, (forall x, In x w -> x <= K) -> opt w <= B * (K + openings K [] w) + e) ->
  (K + 1) * harmonic K K * total opt (words n (K + 1))
  <= ((K + 1) * harmonic K K * (B * K + e) + B * (n * fact K)) * (K + 1) ^ n.
Proof.
  intros K B e opt n HK HO.
  assert (total opt (words n (K + 1))
          <= B * ((K + 1) ^ n * K + total (openings K []) (words n (K + 1))) + (K + 1) ^ n * e) as C.
  { rewrite <- (words_length n (K + 1)), <- !total_const, <- total_plus, <- total_scale, <- total_plus.
    apply total_le. intros w Hw. apply HO.
    intros x Hx. pose proof (words_In _ _ _ Hw x Hx). lia. }
  pose proof (coupon_collector K n HK) as CC.
  apply (Nat.mul_le_mono_l _ _ ((K + 1) * harmonic K K)) in C.
  apply (Nat.mul_le_mono_l _ _ B) in CC. lia.
Qed.

Lemma total_swap : forall A B (f : A -> B -> nat) l1 l2,
  total (fun x => total (f x) l2) l1 = total (fun y => total (fun x => f x y) l1) l2.
Proof.
  induction l1 as [| x r IH]; intros l2.
  - unfold total at 1. simpl. rewrite (total_ext _ (fun y => total (fun x => f x y) []) (fun _ => 0)).
    + rewrite total_const. lia.
    + reflexivity.
  - rewrite (total_ext _ (fun y => total (fun x0 => f x0 y) (x :: r)) (fun y => f x y + total (fun x0 => f x0 y) r)).
    + rewrite total_plus, <- IH. reflexivity.
    + reflexivity.
Qed.

Lemma some_exceeds : forall A (f g : A -> nat) l,
  (exists x, In x l /\ f x < g x) \/ (forall x, In x l -> g x <= f x).
Proof.
  induction l as [| x r IH]; [ right; intros y [] |].
  destruct (le_lt_dec (g x) (f x)) as [H | H].
  - destruct IH as [[y [Hy E]] | IH]; [ left; exists y; split; [ now right | assumption ] |].
    right. intros y [<- | Hy]; auto.
  - left. exists x. split; [ now left | assumption ].
Qed.

Lemma harmonic_positive : forall K, 1 <= K -> 1 <= harmonic K K.
Proof.
  intros K HK. apply Nat.le_trans with (harmonic K 1); [| now apply harmonic_mono ].
  cbn [harmonic]. rewrite Nat.div_1_r. pose proof (lt_O_fact K). lia.
Qed.

(* If a schedule pays at most B' per phase, no mixture of policies has a ratio below H_K B / B', B the price of a block. *)
Lemma harmonic_gap : forall V K D L pols p q b B' e (opt : list nat -> nat),
  1 <= K -> 0 < D -> 0 < per_phase V D L -> pols <> [] ->
  (forall pol, In pol pols -> obeys V K (tau_of V D L) pol [] []) ->
  (forall w, (forall x, In x w -> x <= K) -> opt w <= B' * (K + openings K [] w) + e) ->
  p * fact K * B' < q * harmonic K K * per_phase V D L ->
  exists bs, (forall x, In x bs -> x <= K) /\
    p * length pols * opt bs + b < q * total (fun pol => alg_free V K D L pol bs) pols.
Proof.
  intros V K D L pols p q b B' e opt HK HD HB Hne HO Hopt Hpq.
  set (B := per_phase V D L) in *. set (H := harmonic K K) in *. set (M := length pols).
  assert (1 <= M) as HM by (unfold M; destruct pols; [ congruence | simpl; lia ]).
  set (n := S (p * M * ((K + 1) * H * (B' * K + e)) + (K + 1) * H * b + q * H * M * ((K + 1) * (K * L)))).
  set (P := (K + 1) ^ n).
  assert (1 <= P) as HP by (unfold P; pose proof (Nat.pow_nonzero (K + 1) n ltac:(lia)); lia).
  destruct (some_exceeds _ (fun w => p * M * opt w + b)
             (fun w => q * total (fun pol => alg_free V K D L pol w) pols) (words n (K + 1))) as [[w [Hw E]] | C].
  - exists w. split; [| exact E ]. intros x Hx. pose proof (words_In _ _ _ Hw x Hx). lia.
  - exfalso. apply total_le in C.
    rewrite total_plus, !total_scale, total_const, words_length, <- total_swap in C. fold P in C.
    set (O := total opt (words n (K + 1))) in *.
    set (A := total (fun pol => total (alg_free V K D L pol) (words n (K + 1))) pols) in *.
    assert (M * (n * B * P) <= (K + 1) * (A + M * (P * (K * L)))) as LA.
    { unfold A, M. rewrite <- !total_const, <- total_plus, <- total_scale. apply total_le.
      intros pol Hpol. apply alg_average; auto. }
    pose proof (opt_average K B' e opt n HK Hopt) as LO. fold H P O in LO.
    apply (Nat.mul_le_mono_l _ _ ((K + 1) * H)) in C.
    apply (Nat.mul_le_mono_l _ _ (p * M)) in LO.
    apply (Nat.mul_le_mono_l _ _ (q * H)) in LA.
    set (X := p * M * ((K + 1) * H * (B' * K + e)) + (K + 1) * H * b + q * H * M * ((K + 1) * (K * L))) in *.
    assert (q * H * (M * (n * B * P)) <= P * X + p * fact K * B' * (M * n * P)) as F by (unfold X; lia).
    assert ((p * fact K * B' + 1) * (M * n * P) <= q * H * B * (M * n * P)) as F2
      by (apply Nat.mul_le_mono_r; lia).
    assert (M * n * P <= P * X) as F3 by lia.
    assert (1 * (n * P) <= M * (n * P)) as F4 by (apply Nat.mul_le_mono_r; lia).
    assert (P * n <= P * X) as F5 by lia.
    apply Nat.mul_le_mono_pos_l in F5; [| lia ]. unfold n in F5. lia.
Qed.

(* No online policy is p/q-competitive with p/q < H_K: for a uniform choice among any finite list of deterministic
   policies (repetitions allowed), and any b, some blocks over K + 1 items and some schedule that obeys the rules
   have q E[ALG] > p OPT + b / length pols. The policies' fill is free, that of the schedule is charged. The K! is
   that of harmonic K K = K! H_K. *)
Theorem no_policy_beats_harmonic : forall V K D L pols p q b,
  1 <= K -> 0 < D -> 0 < per_phase V D L -> pols <> [] ->
  (forall pol, In pol pols -> obeys V K (tau_of V D L) pol [] []) ->
  p * fact K < q * harmonic K K ->
  exists bs sched c m z,
    (forall x, In x bs -> x <= K) /\ map fst sched = blocks (tau_of V D L) bs /\
    run V K [] sched = Some (c, m, z) /\
    p * length pols * charged D L m z + b < q * total (fun pol => alg_free V K D L pol bs) pols.
Proof.
  intros V K D L pols p q b HK HD HB Hne HO Hpq.
  destruct (harmonic_gap V K D L pols p q b (per_phase V D L) 0 (phases_charged V K D L)) as [bs [R E]]; auto.
  - intros w R. destruct (phase_cost V K (tau_of V D L) D L w HK (tau_positive V D L HD HB) R)
      as [c [m [z [E [_ [A _]]]]]].
    unfold phases_charged. rewrite E. unfold per_phase. lia.
  - apply Nat.mul_lt_mono_pos_r; assumption.
  - destruct (phase_cost V K (tau_of V D L) D L bs HK (tau_positive V D L HD HB) R) as [c [m [z [E2 [E3 _]]]]].
    exists bs, (phase_schedule K (tau_of V D L) [] bs), c, m, z.
    unfold phases_charged in E. rewrite E2 in E. auto.
Qed.

(* ---- 6. Pool, serve_then_update, lambda > 0: a schedule that loads the next item in time pays L per phase ---- *)

Definition stu_pool := Variant true false.
Definition uts_pool := Variant false false.

(* Each update one step earlier. *)
Fixpoint earlier (l : list (nat * action)) : list (nat * action) :=
  match l with
  | [] => []
  | (q, _) :: r => (q, match r with (_, a) :: _ => a | [] => idle end) :: earlier r
  end.

(* The first block begins with its own load; from its second request on, everything is done one step earlier. *)
Definition early_schedule (K tau : nat) (bs : list nat) : list (nat * action) :=
  match phase_schedule K tau [] bs with [] => [] | first :: r => first :: earlier r end.

Lemma earlier_requests : forall l, map fst (earlier l) = map fst l.
Proof. induction l as [| [q a] r IH]; [ reflexivity | cbn [earlier map fst]; now rewrite IH ]. Qed.

Lemma pool_update : forall V K q q' c a, stream V = false -> update V K c q a = update uts_pool K c q' a.
Proof.
  intros V K q q' c a HV. unfold update. destruct (leave_all c (leaves a)) as [c1 |]; [| reflexivity ].
  revert c1. induction (enters a) as [| i r IH]; intros c1; [ reflexivity |].
  cbn [enter_all]. rewrite HV. cbn [stream uts_pool andb].
  destruct (held i c1); [ reflexivity |]. destruct (S (length c1) <=? K); [ apply IH | reflexivity ].
Qed.

(* After the first update the two orders see the same caches. *)
Lemma earlier_run : forall K r q a c c1 c2 m z,
  update uts_pool K c q a = Some c1 -> run uts_pool K c ((q, a) :: r) = Some (c2, m, z) ->
  exists c3, run stu_pool K c1 (earlier ((q, a) :: r)) = Some (c3, m, z - length (enters a)).
Proof.
  intros K r; induction r as [| [q' a'] r IH]; intros q a c c1 c2 m z U R.
  - cbn [run] in R. rewrite U in R. injection R as <- <- <-. exists c1.
    cbn [earlier run]. unfold update at 1. cbn [idle leaves enters leave_all enter_all length].
    cbn [serves_first stu_pool uts_pool].
    replace (length (enters a) + 0 - length (enters a)) with 0 by lia. reflexivity.
  - cbn [run] in R. rewrite U in R. cbn [serves_first uts_pool] in R.
    destruct (update uts_pool K c1 q' a') as [c4 |] eqn:U2; [| discriminate ].
    destruct (run uts_pool K c4 r) as [[[c5 m5] z5] |] eqn:R2; [| discriminate ].
    injection R as <- <- <-.
    assert (run uts_pool K c1 ((q', a') :: r) = Some (c5, miss q' c4 + m5, length (enters a') + z5)) as R3
      by (cbn [run]; rewrite U2, R2; reflexivity).
    destruct (IH q' a' c1 c4 c5 _ _ U2 R3) as [c6 R6]. exists c6.
    change (earlier ((q, a) :: (q', a') :: r)) with ((q, a') :: earlier ((q', a') :: r)).
    cbn [run]. rewrite (pool_update stu_pool K q q' c1 a' eq_refl), U2, R6. cbn [serves_first stu_pool].
    f_equal. f_equal. lia.
Qed.

(* D once, and L per phase beside the K items of the first. *)
Theorem early_cost : forall K tau D L bs, 1 <= K -> 2 <= tau -> (forall x, In x bs -> x <= K) ->
  exists c m z, run stu_pool K [] (early_schedule K tau bs) = Some (c, m, z) /\
    map fst (early_schedule K tau bs) = blocks tau bs /\
    charged D L m z <= L * (K + openings K [] bs) + D.
Proof.
  intros K tau D L bs HK Ht R.
  destruct (filling_phases uts_pool K tau bs []) as [c1 [z [E Hz]]]; auto.
  { split; [ constructor | simpl; lia ]. }
  { intros x []. }
  cbn [serves_first uts_pool length] in *. rewrite Nat.sub_0_r in Hz.
  pose proof (phase_schedule_requests K tau bs [] ltac:(lia)) as Rq.
  unfold early_schedule. destruct bs as [| x r].
  - exists [], 0, 0. unfold charged. repeat split. lia.
  - set (l := phase_schedule K tau [] (x :: r)) in *.
    destruct l as [| [q0 a0] [| [q1 a1] l']] eqn:El;
      unfold l in El; cbn [phase_schedule] in El;
      replace (tau - 1) with (S (tau - 2)) in El by lia; cbn [repeat app] in El; try discriminate.
    injection El as <- <- <- <- <-.
    set (l' := repeat (x, idle) (tau - 2) ++ phase_schedule K tau (after K [] x r) r) in *.
    cbn [run] in E.
    destruct (update uts_pool K [] x (phase_action K [] x r)) as [ca |] eqn:U; [| discriminate ].
    assert (update uts_pool K ca x idle = Some ca) as U2 by reflexivity.
    destruct (run uts_pool K ca ((x, idle) :: l')) as [[[cb mb] zb] |] eqn:R2.
    2:{ cbn [run] in R2. rewrite U2 in E, R2. destruct (run uts_pool K ca l') as [[[? ?] ?] |]; discriminate. }
    destruct (earlier_run K l' x idle ca ca cb mb zb U2 R2) as [c3 R3].
    cbn [run] in R2. rewrite U2 in E, R2.
    destruct (run uts_pool K ca l') as [[[cl ml] zl] |] eqn:Rl; [| discriminate ].
    injection R2 as <- <- <-. injection E as <- Em Ez.
    exists c3, (miss x [] + (miss x ca + ml)), (length (enters (phase_action K [] x r)) + zl).
    split; [| split ].
    + cbn [run]. rewrite (pool_update stu_pool K x x [] _ eq_refl), U, R3.
      cbn [serves_first stu_pool uts_pool idle enters length]. simpl (0 + zl - 0). rewrite Nat.sub_0_r. reflexivity.
    + rewrite <- Rq. cbn [map]. rewrite earlier_requests. reflexivity.
    + cbn [serves_first uts_pool idle enters length] in *.
      assert (miss x [] = 1) as -> by reflexivity.
      assert (length (enters (phase_action K [] x r)) + zl <= K + openings K [] (x :: r)) as Hz2 by lia.
      assert (miss x ca + ml = 0) as -> by lia. unfold charged.
      apply (Nat.mul_le_mono_r _ _ L) in Hz2. lia.
Qed.

(* The same for the pool: no ratio below (1 + 1/lambda) H_K, with 1 + 1/lambda = (D + L)/L. *)
Theorem no_policy_beats_harmonic_pool : forall K D L pols p q b,
  1 <= K -> 0 < D -> 0 < L -> pols <> [] ->
  (forall pol, In pol pols -> obeys stu_pool K (tau_stu D L) pol [] []) ->
  p * fact K * L < q * harmonic K K * (D + L) ->
  exists bs sched c m z,
    (forall x, In x bs -> x <= K) /\ map fst sched = blocks (tau_stu D L) bs /\
    run stu_pool K [] sched = Some (c, m, z) /\
    p * length pols * charged D L m z + b < q * total (fun pol => alg_free stu_pool K D L pol bs) pols.
Proof.
  intros K D L pols p q b HK HD HL Hne HO Hpq.
  assert (2 <= tau_stu D L) as Ht by (unfold tau_stu; pose proof (ceil_div_spec L D HD); nia).
  pose (opt := fun w => match run stu_pool K [] (early_schedule K (tau_stu D L) w) with
                        | Some (_, m, z) => charged D L m z | None => 0 end).
  destruct (harmonic_gap stu_pool K D L pols p q b L D opt) as [bs [R E]]; auto.
  - unfold per_phase. simpl. lia.
  - intros w R. unfold opt. destruct (early_cost K (tau_stu D L) D L w HK Ht R) as [c [m [z [-> [_ A]]]]]. exact A.
  - destruct (early_cost K (tau_stu D L) D L bs HK Ht R) as [c [m [z [E2 [E3 _]]]]].
    exists bs, (early_schedule K (tau_stu D L) bs), c, m, z.
    unfold opt in E. rewrite E2 in E. auto.
Qed.

(* ---- 7. The hypothesis `obeys` is met: a policy that holds the item of the last request ---- *)

Definition last_item (h : list nat) : action :=
  match h with
  | [] => idle
  | [q] => Act [] [q]
  | q :: p :: _ => if q =? p then idle else Act [p] [q]
  end.

Theorem last_item_obeys : forall V K tau, 1 <= K -> obeys V K tau last_item [] [].
Proof.
  intros V K tau HK bs _. unfold play.
  assert (forall qs h, run V K (match h with [] => [] | x :: _ => [x] end) (acts last_item h qs) <> None) as G.
  { induction qs as [| q r IH]; intros h; [ discriminate |].
    cbn [acts run].
    assert (update V K (match h with [] => [] | x :: _ => [x] end) q (last_item (q :: h)) = Some [q]) as ->.
    { assert (1 <=? K = true) as E1 by now apply Nat.leb_le.
      destruct h as [| p h]; unfold update, last_item.
      - cbn [leaves enters leave_all enter_all held existsb length].
        now rewrite Nat.eqb_refl, andb_false_r, E1.
      - destruct (q =? p) eqn:E; [ apply Nat.eqb_eq in E; now subst |].
        cbn [leaves enters leave_all enter_all held existsb length drop].
        rewrite Nat.eqb_refl. cbn [orb leave_all enter_all held existsb length].
        now rewrite Nat.eqb_refl, andb_false_r, E1. }
    specialize (IH (q :: h)). cbn in IH.
    destruct (run V K [q] (acts last_item (q :: h) r)) as [[[c m] z] |]; [ discriminate | contradiction ]. }
  exact (G (blocks tau bs) []).
Qed.
